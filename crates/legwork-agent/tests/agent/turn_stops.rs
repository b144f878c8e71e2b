//! A stop at every place where a turn can be.

use crate::fakes::{Bench, Dropped, FakeModel, FakeSteps, FakeTool, Say, call, until};
use legwork_agent::tools::{Effect, ToolOutput};
use legwork_core::ids::ClaimId;
use legwork_core::message::{Author, Part};
use legwork_core::outcome::{Ending, FailureKind, StopReason};
use legwork_core::report::Report;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

fn look() -> Say {
    Say::Calls("I look.", vec![call("a", "look", json!({}))])
}

fn interrupted(report: &Report, answer: Option<&str>) {
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Interrupted, answer));
    assert_eq!(report.error, None);
}

#[tokio::test]
async fn inv_11_a_stop_before_the_start_asks_nothing() {
    let bench = Bench::new(FakeModel::new([]), vec![]);
    bench.line.stop();
    interrupted(&bench.run().await, None);
    assert_eq!(bench.model.calls(), 0);
}

/// Proves ENTRY-7.
#[tokio::test]
async fn inv_11_a_stop_drops_the_model_call_and_keeps_its_text() {
    let (mark, is_dropped) = Dropped::new();
    let bench =
        Bench::new(FakeModel::new([look(), Say::Hang("It is bl", mark)]), vec![FakeTool::look("look", "")]);
    let (report, ()) = tokio::join!(bench.run(), async {
        until(|| bench.model.calls() >= 2).await;
        bench.line.stop();
    });
    interrupted(&report, Some("It is bl"));
    assert!(is_dropped());
    let last = bench.steps.journal().pop().expect("there are commits");
    assert_eq!(last, "3=It is bl\n\n[the turn ended here without an answer: it was stopped on request]");
}

#[tokio::test]
async fn k14_a_stop_in_mid_text_leaves_a_conversation_that_goes_on() {
    let (mark, _) = Dropped::new();
    let bench = Bench::new(FakeModel::new([Say::Hang("It is bl", mark)]), vec![]);
    let mut context = Bench::opening();
    tokio::join!(bench.run_on(&mut context), async {
        until(|| bench.model.calls() >= 1).await;
        bench.line.stop();
    });
    let last = context.messages().last().expect("there are messages");
    assert_eq!(last.author, Author::Assistant);
    assert!(last.plain_text().starts_with("It is bl\n\n[the turn ended here"), "{}", last.plain_text());
    assert_eq!(bench.steps.open().await, 0);
}

#[tokio::test]
async fn inv_11_a_stop_drops_the_running_tools_and_says_that_their_effect_is_in_doubt() {
    let begun = Arc::new(Notify::new());
    let (mark, is_dropped) = Dropped::new();
    let tool_begun = Arc::clone(&begun);
    let hang = FakeTool::new("look", Effect::Changes, move |_| {
        let (mark, begun) = (mark.clone(), Arc::clone(&tool_begun));
        Box::pin(async move {
            begun.notify_one();
            std::future::pending::<()>().await;
            drop(mark);
            ToolOutput::ok("never")
        })
    });
    let bench = Bench::new(FakeModel::new([look()]), vec![hang.clone()]);
    let (report, ()) = tokio::join!(bench.run(), async {
        begun.notified().await;
        bench.line.stop();
    });
    interrupted(&report, Some("I look."));
    drop((bench.tools, hang));
    assert!(is_dropped());
    let last = bench.steps.journal().pop().expect("there are commits");
    assert!(last.starts_with("2 failed {\"error\":\"look was cut off while it ran"), "{last}");
    assert!(last.contains("Whether it had an effect is not known"), "{last}");
    assert_eq!((report.in_doubt.len(), report.tool_trace.len()), (1, 1));
}

/// Three calls side by side, of which the second ends, and one after them.
fn half_way(begun: &Arc<Notify>) -> Bench {
    let (begun, hanging) = (Arc::clone(begun), Arc::new(AtomicUsize::new(0)));
    let look = FakeTool::new("look", Effect::ReadOnly, move |invocation| {
        let (begun, hanging) = (Arc::clone(&begun), Arc::clone(&hanging));
        Box::pin(async move {
            if invocation.call_id == "b" {
                return ToolOutput { acknowledge: vec![ClaimId::from_bits(9)], ..ToolOutput::ok("seen") };
            }
            if hanging.fetch_add(1, Ordering::SeqCst) == 1 {
                begun.notify_one();
            }
            std::future::pending().await
        })
    });
    let calls = ["a", "b", "c"].map(|id| call(id, "look", json!({}))).to_vec();
    let calls = calls.into_iter().chain([call("d", "change", json!({"what": 1}))]).collect();
    let model = FakeModel::new([Say::Calls("I look.", calls)]);
    Bench::new(model, vec![look, FakeTool::change("change", "did")])
}

#[tokio::test]
async fn k43_a_stop_between_the_calls_of_a_reply_keeps_what_ended_and_answers_every_call_in_one_commit() {
    let begun = Arc::new(Notify::new());
    let bench = half_way(&begun);
    let mut context = Bench::opening();
    let (report, ()) = tokio::join!(bench.run_on(&mut context), async {
        begun.notified().await;
        bench.line.stop();
    });
    interrupted(&report, Some("I look."));
    assert_eq!((bench.steps.commits(), bench.steps.open().await), (3, 0));
    assert_eq!(bench.steps.acknowledged()[2], [ClaimId::from_bits(9)]);
    let [reply, results] = &context.messages()[2..] else { panic!("{:?}", context.messages()) };
    assert_eq!((reply.calls().count(), results.author), (4, Author::Tool));
    let results: Vec<(String, bool)> = results.parts.iter().map(told).collect();
    assert!(results[0].0.contains("cut off while it ran") && results[0].0.contains("changes nothing"));
    assert_eq!(results[1], ("b seen".to_owned(), false));
    assert!(results[2].0.starts_with("c ") && results[2].1, "{results:?}");
    assert!(results[3].0.contains("was not carried out") && results[3].1, "{results:?}");
    assert_eq!((report.in_doubt, report.tool_trace.len()), (vec![], 3));
}

fn told(part: &Part) -> (String, bool) {
    match part {
        Part::Result(result) => (format!("{} {}", result.call_id, result.content), result.is_error),
        other => panic!("{other:?} is no result"),
    }
}

#[tokio::test]
async fn inv_30_what_a_stop_cut_off_and_could_not_be_stored_is_not_in_the_context_either() {
    let begun = Arc::new(Notify::new());
    let bench = Bench { steps: FakeSteps::refusing_from(2), ..half_way(&begun) };
    let mut context = Bench::opening();
    let (report, ()) = tokio::join!(bench.run_on(&mut context), async {
        begun.notified().await;
        bench.line.stop();
    });
    assert_eq!(report.ending, Ending::Failed(FailureKind::Store));
    assert_eq!(context.messages().len(), 2);
}

#[tokio::test]
async fn inv_13_a_stop_between_a_result_and_the_next_call_keeps_the_result_and_asks_nothing() {
    let bench = Arc::new(std::sync::OnceLock::<Bench>::new());
    let stopping = Arc::clone(&bench);
    let stop = FakeTool::new("look", Effect::ReadOnly, move |_| {
        stopping.get().expect("the bench is set").line.stop();
        Box::pin(async { ToolOutput::ok("seen") })
    });
    let bench = bench.get_or_init(|| Bench::new(FakeModel::new([look()]), vec![stop]));
    let report = bench.run().await;
    interrupted(&report, Some("I look."));
    assert_eq!((bench.model.calls(), report.tool_trace.len()), (1, 1));
    assert_eq!(bench.steps.journal().last().map(String::as_str), Some("2=a:seen"));
}

#[tokio::test]
async fn inv_13_a_whole_answer_is_not_lost_to_a_stop_that_comes_with_it() {
    let bench = Arc::new(std::sync::OnceLock::<Bench>::new());
    let stopping = Arc::clone(&bench);
    let model = FakeModel::heard([Say::Text("blue")], move || {
        stopping.get().expect("the bench is set").line.stop();
    });
    let bench = bench.get_or_init(|| Bench::new(model, vec![]));
    let report = bench.run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("blue")));
}

/// The process is told to end between the commit of a reply with its call, and the beginning of that call.
#[tokio::test(start_paused = true)]
async fn k33_a_call_that_is_begun_in_the_journal_comes_to_its_end_when_the_process_is_told_to_end_just_then()
{
    let change = FakeTool::change("change", "did");
    let reply = Say::Calls("I change it.", vec![call("a", "change", json!({"what": 1}))]);
    let bench = Bench::new(FakeModel::new([reply]), vec![change.clone()]);
    bench.line.stop_at("replied 10/2", StopReason::Shutdown);
    let begun = tokio::time::Instant::now();
    let report = bench.run().await;
    assert_eq!(report.ending, Ending::Interrupted);
    assert_eq!((report.in_doubt.len(), report.tool_trace.len()), (0, 1), "{report:?}");
    assert!(
        bench.line.words().iter().any(|word| word.starts_with("ended change did")),
        "{:?}",
        bench.line.words()
    );
    assert_eq!(bench.steps.open().await, 0, "{:?}", bench.steps.journal());
    assert_eq!(begun.elapsed(), std::time::Duration::ZERO, "it waits for nothing");
}
