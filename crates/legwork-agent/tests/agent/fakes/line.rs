//! A line that remembers what was told, and from which a test stops the run.

use legwork_core::ids::RequestId;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Line, Pending, Steer, StopNotice};
use legwork_core::pulse::LineEvent;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

pub struct FakeLine {
    events: Mutex<Vec<LineEvent>>,
    steers: Mutex<Vec<Steer>>,
    stop: watch::Sender<Option<StopReason>>,
    /// The run is stopped when this is told.
    stops_at: Mutex<Option<(String, StopReason)>>,
}

impl FakeLine {
    pub fn new() -> Arc<Self> {
        Arc::new(FakeLine {
            events: Mutex::default(),
            steers: Mutex::default(),
            stop: watch::channel(None).0,
            stops_at: Mutex::default(),
        })
    }

    pub fn stop(&self) {
        self.stop.send_replace(Some(StopReason::Cancelled));
    }

    /// The run will be stopped in the moment in which it tells this.
    pub fn stop_at(&self, word: &str, reason: StopReason) {
        *self.stops_at.lock().expect("no holder panics") = Some((word.to_owned(), reason));
    }

    /// Says something to the run, under the request of that number.
    pub fn steer(&self, number: u64, text: &str) {
        let steer = Steer { request: RequestId::from_bits(number), text: text.to_owned() };
        self.steers.lock().expect("no holder panics").push(steer);
    }

    /// What was said and nobody has taken.
    pub fn unheard(&self) -> usize {
        self.steers.lock().expect("no holder panics").len()
    }

    pub fn events(&self) -> Vec<LineEvent> {
        self.events.lock().expect("no holder panics").clone()
    }

    /// What was told, each event as a short word.
    pub fn words(&self) -> Vec<String> {
        self.events().iter().map(word).collect()
    }
}

fn word(event: &LineEvent) -> String {
    match event {
        LineEvent::ModelCalled => "asked".to_owned(),
        LineEvent::Text(text) => format!("text {text}"),
        LineEvent::Thinking(text) => format!("thinking {text}"),
        LineEvent::Replied { usage, .. } => format!("replied {}/{}", usage.input, usage.output),
        LineEvent::Retrying { .. } => "retrying".to_owned(),
        LineEvent::ToolStarted { tool, arguments, .. } => format!("started {tool} {arguments}"),
        LineEvent::ToolMoved => "moved".to_owned(),
        LineEvent::ToolEnded { tool, result, is_error, .. } => format!("ended {tool} {result} {is_error}"),
        LineEvent::Compacted { messages, .. } => format!("compacted {messages}"),
        LineEvent::Note(note) => note.clone(),
    }
}

impl Line for FakeLine {
    fn tell(&self, event: LineEvent) {
        let stops_at = self.stops_at.lock().expect("no holder panics").clone();
        if let Some((_, reason)) = stops_at.filter(|(at, _)| *at == word(&event)) {
            self.stop.send_replace(Some(reason));
        }
        self.events.lock().expect("no holder panics").push(event);
    }

    fn stopped(&self) -> Pending<'_, StopNotice> {
        let mut stop = self.stop.subscribe();
        Box::pin(async move {
            let stop = stop.wait_for(Option::is_some).await.expect("the line outlives whoever listens to it");
            let reason = stop.expect("it was waited for");
            StopNotice { reason, force: Force::Ask }
        })
    }

    fn steered(&self) -> Vec<Steer> {
        std::mem::take(&mut *self.steers.lock().expect("no holder panics"))
    }

    fn park(&self) -> Pending<'_, ()> {
        self.tell(LineEvent::Note("parked".to_owned()));
        Box::pin(async {})
    }

    fn unpark(&self) -> Pending<'_, Result<(), StopNotice>> {
        self.tell(LineEvent::Note("unparked".to_owned()));
        Box::pin(async { Ok(()) })
    }
}
