//! A store whose calls a test delays and lets fail, before or after they were carried out, and whose answers it bends to
//! see whether somebody notices. It writes down which calls came and stores nothing itself.
//!
//! It is what one process has open: when a call kills the process, every later one of it hangs, so that nothing that
//! is left of it in memory has any effect.

mod call;
mod faces;
mod life;

pub use call::{Bend, Call, Content, Luck};

use legwork_core::fact::{Append, Fact};
use legwork_core::ids::UnitId;
use legwork_core::ports::{Found, Pending, Store, StoreError, WriteSteps};
use legwork_core::step::Fence;
use life::{Life, Lifetime};
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use tokio::time::sleep;

/// Decides what a call meets.
type Fortune = Box<dyn FnMut(Call<'_>) -> Luck + Send>;

/// What settled, as it was recorded. The stores of several processes may share one.
pub type Settled = Arc<Mutex<SettledUnits>>;

/// What settled, in the order in which whoever recorded it heard that it was.
#[derive(Debug, Default)]
pub struct SettledUnits {
    /// The units.
    pub units: Vec<SettledUnit>,
    moments: u64,
}

/// One unit that settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledUnit {
    /// The unit.
    pub unit: UnitId,
    /// A moment before the store recorded it.
    pub began: u64,
    /// A moment after that.
    pub ended: u64,
}

impl SettledUnits {
    fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }
}

/// A store over another one.
pub struct ShakyStore {
    inner: Arc<dyn Store>,
    fortune: Mutex<Fortune>,
    /// The names of the calls that came, in order.
    calls: Mutex<Vec<&'static str>>,
    /// How many units it was read that have not arrived.
    read: AtomicUsize,
    settled: Settled,
    bend: Option<Bend>,
    pace: Pace,
    /// Written by calls, read by them and by whoever waits for a death.
    life: Arc<Lifetime>,
}

/// What a call meets with the process that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    /// The process is alive.
    Luck(Luck),
    /// It does not move.
    Stillness,
    /// It is dead.
    Death,
}

/// What paused time does while the inner store works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// The inner store answers at once.
    AtOnce,
    /// The inner store has threads of its own; time stands still until they are done.
    Still,
}

impl ShakyStore {
    /// A store over `inner` that does as it is told.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        ShakyStore {
            inner,
            fortune: Mutex::new(Box::new(|_| Luck::Good)),
            calls: Mutex::default(),
            read: AtomicUsize::new(0),
            settled: Settled::default(),
            bend: None,
            pace: Pace::AtOnce,
            life: Arc::default(),
        }
    }

    /// The same with a bug.
    pub fn bent(inner: Arc<dyn Store>, bend: Option<Bend>) -> Self {
        ShakyStore { bend, ..ShakyStore::new(inner) }
    }

    /// The same, and paused time stands still while a call is under way: for a store that works on threads of its own, for
    /// which paused time would not wait.
    pub fn in_its_own_time(self) -> Self {
        ShakyStore { pace: Pace::Still, ..self }
    }

    /// The same, and what settles is written down there.
    pub fn noting(self, settled: Settled) -> Self {
        ShakyStore { settled, ..self }
    }

    /// From now on `fortune` decides what becomes of each call by the name of the port's method.
    pub fn let_decide(&self, mut fortune: impl FnMut(&'static str) -> Luck + Send + 'static) {
        self.let_judge(move |call| fortune(call.name));
    }

    /// From now on `fortune` decides what becomes of each call.
    pub fn let_judge(&self, fortune: impl FnMut(Call<'_>) -> Luck + Send + 'static) {
        *locked(&self.fortune) = Box::new(fortune);
    }

    /// The process dies now: every call from here on hangs, and no answer arrives any more.
    pub fn die(&self) {
        self.life.turn(Life::Dead);
    }

    /// Resolves when the process has died; never when the store is dropped before.
    pub fn death(&self) -> impl Future<Output = ()> + Send + use<> {
        let life = self.life.clone();
        async move { life.until(|life| life == Life::Dead).await }
    }

    /// The process stands still from now on: what it stores is taken when it goes on, and everything else that it asks
    /// fails then.
    pub fn stand_still(&self) {
        self.life.turn_from(Life::Alive, Life::Still);
    }

    /// It goes on.
    pub fn go_on(&self) {
        self.life.turn_from(Life::Still, Life::Alive);
    }

    async fn until_it_goes_on(&self) {
        self.life.until(|life| life != Life::Still).await;
    }

    fn stands_still(&self) -> bool {
        self.life.now() == Life::Still
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.life.now() == Life::Dead
    }

    /// The calls with these names fail, until something else is said.
    pub fn fail(&self, names: &'static [&'static str]) {
        self.let_decide(move |name| if names.contains(&name) { Luck::Fails } else { Luck::Good });
    }

    /// From now on every call is carried out.
    pub fn recover(&self) {
        self.let_decide(|_| Luck::Good);
    }

    /// The names of all calls since the last time this was asked.
    pub fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *locked(&self.calls))
    }

    /// How many units that have not arrived it has given since the last time this was asked.
    pub fn take_read(&self) -> usize {
        self.read.swap(0, Ordering::Relaxed)
    }

    /// What a call meets.
    fn luck(&self, name: &'static str, content: Content<'_>) -> Met {
        match self.life.now() {
            Life::Dead => Met::Death,
            Life::Doomed => Met::Luck(Luck::Dies),
            Life::Still => Met::Stillness,
            Life::Alive => {
                locked(&self.calls).push(name);
                Met::Luck(locked(&self.fortune)(Call { name, content }))
            }
        }
    }

    /// Stores steps of a child in the name of whoever owns its work now.
    async fn write_as_whoever_may(&self, mut write: WriteSteps) -> Result<(), StoreError> {
        if let Some(Found::Child(delegation, _)) = self.inner.find(write.actor.as_str()).await?.first()
            && let Some(record) = self.inner.delegation(delegation).await?
        {
            write.fence = Fence { owner: record.owner.id, epoch: record.epoch };
        }
        self.inner.write_steps(write).await
    }

    /// Carries a call out as luck has it, at once, so that dropping the answer does not take it back.
    fn meet<'a, T: Send + 'a>(
        &'a self,
        met: Met,
        call: impl FnOnce() -> Pending<'a, Result<T, StoreError>>,
    ) -> Pending<'a, Result<T, StoreError>> {
        let luck = match met {
            Met::Luck(luck) => luck,
            Met::Death => return Box::pin(pending()),
            Met::Stillness => {
                return Box::pin(async move {
                    self.until_it_goes_on().await;
                    Err(failure())
                });
            }
        };
        match luck {
            Luck::Good => self.under_way(call()),
            Luck::Slow(time) => {
                let done = self.under_way(call());
                Box::pin(async move {
                    let answer = done.await;
                    // Deadline: the test wants the answer to take this long.
                    sleep(time).await;
                    answer
                })
            }
            Luck::Fails => Box::pin(async { Err(failure()) }),
            Luck::NoRoom => Box::pin(async { Err(StoreError::Full("no space left on device".to_owned())) }),
            Luck::FailsLate => {
                let done = self.under_way(call());
                Box::pin(async move { done.await.and(Err(failure())) })
            }
            Luck::Dies => {
                self.die();
                Box::pin(pending())
            }
            Luck::DiesLate => {
                let done = self.under_way(call());
                Box::pin(async move {
                    // Whether it fails is of no interest to the dead.
                    done.await.ok();
                    self.die();
                    pending().await
                })
            }
            Luck::Last => {
                let done = self.under_way(call());
                Box::pin(async move {
                    let answer = done.await;
                    self.life.turn(Life::Doomed);
                    answer
                })
            }
        }
    }

    /// A call that the inner store works on. The dead hear no answer.
    fn under_way<'a, T: Send + 'a>(
        &'a self,
        call: Pending<'a, Result<T, StoreError>>,
    ) -> Pending<'a, Result<T, StoreError>> {
        let pace = self.pace;
        Box::pin(async move {
            let answer = match pace {
                Pace::AtOnce => call.await,
                Pace::Still => while_time_stands_still(call).await,
            };
            if self.is_dead() {
                return pending().await;
            }
            answer
        })
    }
}

/// Paused time does not move while a blocking task runs, so one runs as long as `work` is not done.
async fn while_time_stands_still<T>(mut work: Pending<'_, T>) -> T {
    let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    if let Poll::Ready(done) = first {
        return done;
    }
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    // It ends with the sender, and never gets anything.
    let standing = tokio::task::spawn_blocking(move || is_done.recv().is_err());
    let answer = work.await;
    drop((done, standing));
    answer
}

fn settled_units(append: &Append) -> Vec<UnitId> {
    let settled = append.facts.iter().filter_map(|fact| match fact {
        Fact::UnitSettled { unit } => Some(unit.clone()),
        Fact::Accepted(_) | Fact::Moved { .. } | Fact::Noticed { .. } => None,
    });
    settled.collect()
}

fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure() -> StoreError {
    StoreError::Io("the disk has a bad day".to_owned())
}
