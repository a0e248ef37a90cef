//! A thread pool whose workers spin for a while before they sleep.
//!
//! A launch of 100 us is not worth two threads if the second one has to be woken for it, and the
//! first when that is done: each takes tens of microseconds, most on virtual machines. So a thread
//! that is done polls for new work for a while, and a thread that waits for shares of others polls
//! before it sleeps. General task pools do neither.
//!
//! Only threads that have begun are waited for: the caller does the shares that a worker does not
//! take. So several callers may use the same workers, and a worker that comes too late finds no
//! work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long threads poll for work: about the time that it takes to wake one twice.
const LINGER: Duration = Duration::from_micros(100);
/// The number of polls before a thread yields.
const GLANCES: usize = 16;

/// Calls `work` for each share, on several threads. Thread `k` begins with the `k`-th part of the
/// shares, the calling thread with the first: so each finds its data of the last launch in its
/// caches. A thread that is done takes shares of others. All shares are done when this returns.
///
/// # Panics
///
/// If `work` does.
pub(crate) fn share_out(threads: usize, shares: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let threads = threads.min(shares);
    let job = Arc::new(Job {
        work: Box::new(work),
        shares,
        begun: (0..threads).map(|own| AtomicUsize::new(shares * own / threads)).collect(),
        done: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        caller: thread::current(),
    });
    call(&job, threads);
    job.help(0);
    spin(|| job.is_done().then_some(()), threads);
    assert!(!job.failed.load(Ordering::Relaxed), "a share of a launch failed");
}

/// The work that threads share.
struct Job {
    work: Box<dyn Fn(usize) + Send + Sync>,
    shares: usize,
    /// The next share of each thread.
    begun: Vec<AtomicUsize>,
    done: AtomicUsize,
    failed: AtomicBool,
    caller: Thread,
}

impl Job {
    /// Does shares until none is left.
    fn help(&self, own: usize) {
        let threads = self.begun.len();
        for of in (0..threads).map(|k| (own + k) % threads) {
            let end = self.shares * (of + 1) / threads;
            let taken = std::iter::repeat_with(|| self.begun[of].fetch_add(1, Ordering::Relaxed));
            taken.take_while(|&share| share < end).for_each(|share| self.run(share));
        }
    }

    fn run(&self, share: usize) {
        if catch_unwind(AssertUnwindSafe(|| (self.work)(share))).is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        // The release order makes the writes of this share visible to threads that see the count.
        if self.done.fetch_add(1, Ordering::Release) + 1 == self.shares {
            self.caller.unpark();
        }
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.shares
    }
}

/// A worker and its next job.
struct Helper {
    request: Arc<Request>,
    thread: Thread,
}

#[derive(Default)]
struct Request {
    /// Whether there is a job; polled often.
    any: AtomicBool,
    job: Mutex<Option<(usize, Arc<Job>)>>,
}

impl Request {
    /// The newest job. Its caller does a job before it that the worker did not take.
    fn post(&self, own: usize, job: Arc<Job>) {
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = Some((own, job));
        self.any.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<(usize, Arc<Job>)> {
        let any = self.any.load(Ordering::Relaxed) && self.any.swap(false, Ordering::Acquire);
        any.then(|| self.job.lock().unwrap_or_else(PoisonError::into_inner).take()).flatten()
    }
}

/// Posts a job to workers. There are fewer where the system has no more threads.
fn call(job: &Arc<Job>, threads: usize) {
    static HELPERS: Mutex<Vec<Helper>> = Mutex::new(Vec::new());
    let mut helpers = HELPERS.lock().unwrap_or_else(PoisonError::into_inner);
    while helpers.len() + 1 < threads {
        match helper(threads) {
            Some(helper) => helpers.push(helper),
            None => break,
        }
    }
    for (helper, own) in helpers.iter().zip(1..threads) {
        helper.request.post(own, job.clone());
        helper.thread.unpark();
    }
}

fn helper(mut threads: usize) -> Option<Helper> {
    let request = Arc::new(Request::default());
    let own = request.clone();
    let serve = move || {
        loop {
            let (place, job) = spin(|| own.take(), threads);
            job.help(place);
            threads = job.begun.len();
        }
    };
    let spawned = thread::Builder::new().name("launches".to_owned()).spawn(serve).ok()?;
    Some(Helper { request, thread: spawned.thread().clone() })
}

/// Polls until there is a value, and sleeps after a while, or at once where there are more threads
/// than processors. The thread that provides the value wakes this one.
fn spin<T>(mut look: impl FnMut() -> Option<T>, threads: usize) -> T {
    let begin = Instant::now();
    loop {
        for _ in 0..GLANCES {
            if let Some(found) = look() {
                return found;
            }
            std::hint::spin_loop();
        }
        if begin.elapsed() < LINGER && threads <= processors() {
            thread::yield_now();
        } else {
            thread::park();
        }
    }
}

/// The number of threads that can run at the same time.
pub(crate) fn processors() -> usize {
    static KNOWN: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *KNOWN.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_share_is_done_once_by_any_number_of_threads() {
        for (threads, shares) in [(1, 1), (2, 2), (2, 8), (3, 7), (8, 64), (5, 2)] {
            for _ in 0..50 {
                let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..shares).map(|_| AtomicUsize::new(0)).collect());
                let counted = seen.clone();
                share_out(threads, shares, move |share| {
                    counted[share].fetch_add(1, Ordering::Relaxed);
                });
                assert!(seen.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{threads} threads, {shares} shares");
            }
        }
    }

    #[test]
    fn callers_may_have_the_same_helpers() {
        let sum = Arc::new(AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let sum = sum.clone();
                        share_out(3, 6, move |share| {
                            sum.fetch_add(share, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4 * 100 * 15);
    }

    #[test]
    fn a_failed_share_fails_the_launch_and_later_launches_work() {
        let failing = || share_out(2, 8, |share| assert_ne!(share, 5, "on purpose"));
        assert!(catch_unwind(failing).is_err());
        share_out(2, 8, |_| {});
    }
}
