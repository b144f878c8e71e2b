//! What a provider writes does not get into the log by way of the wire library, least of all a key.

#[path = "models_support/asking.rs"]
mod models_support;

use legwork_testkit::server::{ProviderError, Script, ScriptedServer, Scripts, say};
use models_support::{KEY, failure, model_at};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A log of everything, at every level.
#[derive(Clone, Default)]
struct Everything(Arc<Mutex<String>>);

impl Everything {
    fn text(&self) -> String {
        self.0.lock().expect("no panic under the lock").clone()
    }
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").expect("writing to a string does not fail");
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line(&mut self.0.lock().expect("no panic under the lock")));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().expect("no panic under the lock")));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().expect("no panic under the lock")));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn k29_a_key_that_the_provider_echoes_is_not_logged() {
    let log = Everything::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    tracing::warn!("the log works");
    let echo = ProviderError::new("server_error", format!("who is {KEY}? secret prose"));
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::always(say("half").error_chunk(echo))));
    let error = failure(&model_at(&server)).await;
    assert!(error.message.contains("who is [key]?"), "{error:?}");
    let text = log.text();
    assert!(text.contains("the log works"), "{text}");
    assert!(!text.contains(KEY) && !text.contains("secret prose"), "{text}");
}
