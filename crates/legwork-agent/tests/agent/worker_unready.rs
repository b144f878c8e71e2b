//! A later attempt that lacks what it needs: an answer that is stored comes out all the same, and what else had been done is
//! told.

use crate::fakes::{FakeLine, FakeModel, Say, call};
use crate::worker::Shop;
use legwork_core::batch::Isolation;
use legwork_core::outcome::{Ending, FailureKind, Limit};
use legwork_core::ports::Assignment;
use legwork_core::report::Report;
use serde_json::json;
use std::sync::{Arc, OnceLock};

const RIGHT: &str = r#"{"colour": "blue"}"#;

type Spoil = fn(&mut Assignment);

/// What may be lacking when another process goes on, with words of what is said of it.
const LACKING: [(Spoil, &str); 4] = [
    (|assignment| assignment.setting.folder = "/no/such/folder".to_owned(), "/no/such/folder"),
    (|assignment| assignment.setting.folder = "/dev/null".to_owned(), "/dev/null is not a folder"),
    (|assignment| assignment.setting.route.model = "other/model".to_owned(), "no model other/model"),
    (|assignment| assignment.setting.isolation = Isolation::Worktree, "there is no worktree"),
];

/// Looks, does not answer as it is to, and corrects itself.
async fn undisturbed() -> (Shop, Report) {
    let calls = vec![call("a", "look", json!({}))];
    let shop = Shop::new(FakeModel::new([Say::Calls("I look.", calls), Say::Text("blue"), Say::Text(RIGHT)]));
    let report = shop.work(&shop.worker(), assignment(&shop, 1)).await;
    (shop, report)
}

fn assignment(shop: &Shop, attempt: u32) -> Assignment {
    let schema =
        json!({"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]});
    let mut assignment = shop.assignment(0, None);
    assignment.task.output_schema = Some(schema);
    Assignment { attempt, ..assignment }
}

#[tokio::test]
async fn k02_an_answer_that_is_stored_comes_out_whatever_is_lacking_by_then() {
    let (whole, undisturbed) = undisturbed().await;
    assert_eq!((undisturbed.ending, undisturbed.answer.as_deref()), (Ending::Answered, Some(RIGHT)));
    let journal = whole.steps().journal();
    for (spoil, words) in LACKING {
        for cut in 1..=whole.steps().commits() {
            let shop = whole.after(cut);
            let mut later = assignment(&shop, 2);
            spoil(&mut later);
            let report = shop.work(&shop.worker(), later).await;
            let has = |text: &str| journal[..cut].iter().any(|line| line.contains(text));
            let context = format!("{words}, cut after {cut}: {report:?}");
            if has(RIGHT) {
                let bare = Report { worktree: None, ..report };
                assert_eq!(bare, undisturbed, "{context}");
            } else if has("=blue") {
                assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("blue")));
                let conformance = report.conformance.expect("it was held against the schema");
                assert_eq!((conformance.is_met(), conformance.retries), (false, 1), "{context}");
                assert!(conformance.remark.is_some_and(|remark| remark.contains(words)), "{context}");
            } else {
                assert_eq!(report.ending, Ending::Failed(FailureKind::Setup), "{context}");
                assert!(report.error.is_some_and(|error| error.contains(words)), "{context}");
                let looked = usize::from(has("=a:"));
                assert_eq!(report.answer.as_deref(), has("I look.").then_some("I look."), "{context}");
                assert!(report.tool_trace.len() >= looked, "{context}");
            }
            assert_eq!((shop.requests(), shop.steps().commits()), (0, cut), "{context}");
        }
    }
}

/// Of what was under way nobody knows what it did.
#[tokio::test]
async fn k02_what_was_done_before_something_was_lacking_is_told_with_it() {
    let calls = vec![call("a", "look", json!({})), call("b", "change", json!({"what": "x"}))];
    let shop = Shop::new(FakeModel::new([Say::Calls("I begin.", calls), Say::Text("done")]));
    let whole = shop.changing();
    whole.work(&whole.worker(), whole.assignment(0, None)).await;
    let intended = whole.steps().journal().iter().position(|line| line.contains("change change(b)"));
    let later = whole.after(intended.expect("it is begun") + 1);
    let mut again = Assignment { attempt: 2, ..later.assignment(0, None) };
    again.setting.folder = "/no/such/folder".to_owned();
    let report = later.work(&later.worker(), again).await;
    assert_eq!(
        (report.ending, report.answer.as_deref()),
        (Ending::Failed(FailureKind::Setup), Some("I begin."))
    );
    let tools = |items: &[legwork_core::report::TraceItem]| -> Vec<String> {
        items.iter().map(|item| item.tool.clone()).collect()
    };
    assert_eq!(
        (tools(&report.tool_trace), tools(&report.in_doubt)),
        (vec!["look".to_owned(), "change".to_owned()], vec!["change".to_owned()])
    );
    assert_eq!((report.model_calls, report.usage.output), (1, 2));
}

/// A run that its limit had ended is not made a failure by what is lacking later.
#[tokio::test]
async fn k02_a_run_that_a_limit_had_ended_stays_cut_short() {
    let calls = vec![call("a", "look", json!({}))];
    let whole = Shop::new(FakeModel::new([Say::Calls("I look.", calls)]));
    let limited = |shop: &Shop, attempt| {
        let mut assignment = Assignment { attempt, ..shop.assignment(0, None) };
        assignment.setting.allowance.steps_max = 1;
        assignment
    };
    let undisturbed = whole.work(&whole.worker(), limited(&whole, 1)).await;
    assert_eq!(undisturbed.ending, Ending::CutShort(Limit::Steps));
    let shop = whole.after(whole.steps().commits());
    let mut later = limited(&shop, 2);
    later.setting.route.model = "other/model".to_owned();
    let report = shop.work(&shop.worker(), later).await;
    assert_eq!(report, undisturbed);
}

/// One that had answered before something was said to it, and lacks what it needs to answer that.
#[tokio::test]
async fn ctrl_10_an_answer_before_something_was_said_comes_out_whatever_is_lacking_by_then() {
    let line = Arc::new(OnceLock::<Arc<FakeLine>>::new());
    let (said, told) = (OnceLock::new(), Arc::clone(&line));
    let looks = Say::Calls("I look again.", vec![call("a", "look", json!({}))]);
    let whole = Shop::new(FakeModel::heard([Say::Text("blue"), looks, Say::Text("red")], move || {
        said.get_or_init(|| told.get().expect("it is set").steer(1, "use the red one"));
    }));
    assert!(line.set(Arc::clone(&whole.line)).is_ok());
    let undisturbed = whole.work(&whole.worker(), whole.assignment(0, None)).await;
    assert_eq!(undisturbed.answer.as_deref(), Some("red"));
    let journal = whole.steps().journal();
    let answered = journal.iter().position(|line| line.contains("=blue")).expect("it is stored");
    for (spoil, words) in LACKING {
        for cut in answered + 1..journal.len() {
            let shop = whole.after(cut);
            let mut later = Assignment { attempt: 2, ..shop.assignment(0, None) };
            spoil(&mut later);
            let report = shop.work(&shop.worker(), later).await;
            let context = format!("{words}, cut after {cut}: {report:?}");
            assert_eq!((report.ending, &report.error), (Ending::Answered, &None), "{context}");
            let answer = report.answer.expect("it stands");
            let remark = "[legwork: after this answer it was told something more, and cannot go on: ";
            assert!(
                answer.starts_with(&format!(
                    "blue

{remark}"
                )) && answer.contains(words),
                "{context}"
            );
        }
    }
}

/// An answer that nothing came after: it needs no word of what is lacking.
#[tokio::test]
async fn k02_a_plain_answer_comes_out_whatever_is_lacking_by_then() {
    let whole = Shop::new(FakeModel::new([Say::Text("blue")]));
    let undisturbed = whole.work(&whole.worker(), whole.assignment(0, None)).await;
    for (spoil, words) in LACKING {
        let shop = whole.after(whole.steps().commits());
        let mut later = Assignment { attempt: 2, ..shop.assignment(0, None) };
        spoil(&mut later);
        let report = shop.work(&shop.worker(), later).await;
        assert_eq!(Report { worktree: None, ..report }, undisturbed, "{words}");
    }
}
