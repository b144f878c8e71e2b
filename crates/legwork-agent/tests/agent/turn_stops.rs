//! A stop at every place where a turn can be.

use crate::fakes::{Bench, Dropped, FakeModel, FakeTool, Say, call};
use legwork_agent::tools::{Effect, ToolOutput};
use legwork_core::outcome::Ending;
use legwork_core::report::Report;
use serde_json::json;
use std::sync::Arc;
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

#[tokio::test]
async fn inv_11_a_stop_drops_the_model_call_and_keeps_its_text() {
    let (mark, is_dropped) = Dropped::new();
    let bench =
        Bench::new(FakeModel::new([look(), Say::Hang("It is bl", mark)]), vec![FakeTool::look("look", "")]);
    let (report, ()) = tokio::join!(bench.run(), async {
        while bench.model.calls() < 2 {
            tokio::task::yield_now().await;
        }
        bench.line.stop();
    });
    interrupted(&report, Some("It is bl"));
    assert!(is_dropped());
    assert_eq!(bench.steps.journal().last().map(String::as_str), Some("2=a:, 3 model"));
}

#[tokio::test]
async fn inv_11_a_stop_drops_the_running_tools_and_leaves_them_in_doubt() {
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
    assert_eq!(bench.steps.journal().last().map(String::as_str), Some("1=I look.+a, 2 change look(a)"));
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
    assert_eq!(bench.steps.journal().last().map(String::as_str), Some("2=a:seen, 3 model"));
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
