//! One round of the sweep: start, kill at the round's moment, look, start again, in some rounds kill once more, and let the
//! last start come to its end.

use std::time::{Duration, Instant};

use legwork_testkit::server::ScriptedServer;

use super::audit::Audit;
use super::scene::{AGAIN, Beside, First, PROMPT, Scene};
use super::snapshot::Snapshot;
use crate::harness::{Death, Home, Running, Screen, at, until, within};

/// How much later than the whole scene lasts the last kills come, so that its end is swept too.
const BEYOND: f64 = 1.1;
/// The fraction whose multiples fill an interval evenly, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_895;
/// Starts that a round may need until everything has come back.
const STARTS_MAX: usize = 8;

/// A scene, and how long it lasts.
pub struct Sweep<'a> {
    scene: &'a Scene,
    lasts: Duration,
}

/// The program, however it was started.
enum Started {
    Piped(Running),
    Terminal(Box<Screen>),
}

impl<'a> Sweep<'a> {
    /// Plays the scene once without a kill: what does not hold then need not be looked for after one.
    #[track_caller]
    pub fn over(scene: &'a Scene) -> Sweep<'a> {
        let server = ScriptedServer::start(scene.scripts());
        let home = Home::with(&server);
        let mut audit = Audit::new(scene, &home, &server);
        let begun = Instant::now();
        start(scene, &home).end(&home);
        let lasts = begun.elapsed();
        settle(scene, &home, &mut audit);
        audit.close("undisturbed");
        Sweep { scene, lasts }
    }

    /// Plays one round; gives back how often it killed a program that was at work. One that had ended by itself counts as
    /// started, not as killed.
    #[track_caller]
    pub fn play(&self, round: u32) -> usize {
        let scene = self.scene;
        let server = ScriptedServer::start(scene.scripts());
        let home = Home::with(&server);
        let mut audit = Audit::new(scene, &home, &server);
        let begun = Instant::now();
        let started = start(scene, &home);
        audit.saw(started.kill_at(begun + self.moment(round)));
        if round % 3 == 2
            && let Some(session) = Snapshot::of(&home, scene).session
        {
            let begun = Instant::now();
            let again = Started::Piped(scene.again(&home, &session).start());
            audit.saw(again.kill_at(begun + self.moment(round + 1) / 2));
        }
        if scene.first == First::Chat
            && round % 2 == 1
            && let Some(session) = Snapshot::of(&home, scene).session
        {
            reopen(scene, &home, &session);
            audit.started();
            audit.look();
        }
        settle(scene, &home, &mut audit);
        audit.close(&format!("{}, round {round}, killed after {:?}", scene.name, self.moment(round)))
    }

    /// When a round kills. The numbers of the rounds are spread over the scene without a pattern.
    fn moment(&self, round: u32) -> Duration {
        let part = (f64::from(round) + 0.5) * GOLDEN;
        self.lasts.mul_f64(part.fract() * BEYOND)
    }
}

/// Starts the scene, with what happens beside it.
#[track_caller]
fn start(scene: &Scene, home: &Home) -> Started {
    match scene.first {
        First::Run => {
            let running = scene.first(home).start();
            if scene.beside == Beside::Steer {
                steer(home);
            }
            Started::Piped(running)
        }
        First::Chat => {
            let mut screen = scene.first(home).at_terminal(100, 30);
            screen.wait_for("›");
            screen.press(PROMPT).press("\r");
            Started::Terminal(Box::new(screen))
        }
    }
}

/// Opens the conversation again at a terminal, talks to it and waits until everything has come in.
#[track_caller]
fn reopen(scene: &Scene, home: &Home, session: &str) {
    let mut screen = scene.again_at_terminal(home, session).at_terminal(100, 30);
    screen.wait_for("›");
    screen.press(AGAIN).press("\r");
    Started::Terminal(Box::new(screen)).end(home);
}

/// Says something to the first subagent as soon as there is one. It may have ended by then.
fn steer(home: &Home) {
    let child = within(Duration::from_secs(10), || {
        let list = home.ps();
        let child = list.first()?["units"][0]["children"][0]["subagent_id"].as_str()?.to_owned();
        Some(child)
    });
    if let Some(child) = child {
        home.legwork(&["steer", &child, super::scene::STEER]).run();
    }
}

impl Started {
    #[track_caller]
    fn kill_at(self, moment: Instant) -> Death {
        at(moment);
        match self {
            Started::Piped(running) => running.kill(),
            Started::Terminal(mut screen) => screen.kill(),
        }
    }

    /// Lets it come to its end. A conversation at a terminal has none; it ends when everything has come in.
    #[track_caller]
    fn end(self, home: &Home) {
        match self {
            Started::Piped(running) => {
                let ended = running.wait();
                assert_eq!(ended.code, 0, "{ended}");
            }
            Started::Terminal(mut screen) => {
                until("all results to come in", || {
                    let list = home.list();
                    let mut units = list.iter().flat_map(|known| known["units"].as_array().expect("units"));
                    (!list.is_empty() && units.all(|unit| unit["delivery"] == "delivered")).then_some(())
                });
                screen.kill();
            }
        }
    }
}

/// Starts the program again until nothing is left to come back.
#[track_caller]
fn settle(scene: &Scene, home: &Home, audit: &mut Audit<'_>) {
    for _ in 0..STARTS_MAX {
        let session = Snapshot::of(home, scene).session;
        let ended = match &session {
            Some(session) => scene.again(home, session).run(),
            // Killed before the prompt was stored: nothing was promised, and whoever asked asks again.
            None => scene.prompt(home).run(),
        };
        assert_eq!(ended.code, 0, "{ended}");
        audit.started();
        let now = Snapshot::of(home, scene);
        if now.deliveries().iter().all(|state| *state == "delivered") && !now.deliveries().is_empty() {
            return;
        }
    }
    panic!("after {STARTS_MAX} starts something is still on its way: {:?}", home.list());
}
