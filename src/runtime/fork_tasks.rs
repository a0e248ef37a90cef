//! Work that another thread may begin before its result is needed.
//!
//! The thread that needs the result of a task that no other has begun does it. So a task waits only
//! for tasks that are being done, and no number of threads is too small.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Bytes of the stack of a thread: kernels and machines need little, types nest.
const STACK: usize = 64 << 20;

/// Work with a result.
pub(super) struct Task<T> {
    state: Mutex<State<T>>,
    is_done: Condvar,
}

enum State<T> {
    Waiting(Box<dyn FnOnce() -> T + Send>),
    /// A thread does it, or its result has been taken.
    Taken,
    Done(thread::Result<T>),
}

impl<T: Send + 'static> Task<T> {
    /// Offers work to other threads, of which there are at most so many.
    pub(super) fn offer(threads: usize, work: impl FnOnce() -> T + Send + 'static) -> Arc<Task<T>> {
        let state = Mutex::new(State::Waiting(Box::new(work)));
        let task = Arc::new(Task { state, is_done: Condvar::new() });
        let own = task.clone();
        enqueue(threads, Box::new(move || own.begin()));
        task
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work, unless a thread has begun it.
    fn begin(&self) {
        let Some(work) = self.taken() else { return };
        let done = catch_unwind(AssertUnwindSafe(work));
        *self.state() = State::Done(done);
        self.is_done.notify_all();
    }

    /// The work, if no thread has begun it. A result stays where it is: the queue may be late.
    fn taken(&self) -> Option<Box<dyn FnOnce() -> T + Send>> {
        let mut state = self.state();
        if !matches!(*state, State::Waiting(_)) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting(work) => Some(work),
            _ => None,
        }
    }

    /// The result; once.
    ///
    /// # Panics
    /// If the work does.
    pub(super) fn result(&self) -> T {
        self.begin();
        let mut state = self.state();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(done) => return done.unwrap_or_else(|panic| resume_unwind(panic)),
                _ => state = self.is_done.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

type Queued = Box<dyn FnOnce() + Send>;

/// Tasks that no thread has begun, and those that wait for one.
#[derive(Default)]
struct Queue {
    tasks: VecDeque<Queued>,
    threads: usize,
    idle: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { tasks: VecDeque::new(), threads: 0, idle: 0 });
static IS_FILLED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn enqueue(most: usize, task: Queued) {
    let mut queue = queue();
    queue.tasks.push_back(task);
    // Without another thread the one that needs the result does the work.
    if queue.idle < queue.tasks.len() && queue.threads < most {
        let started = thread::Builder::new().name("forks".to_owned()).stack_size(STACK).spawn(serve);
        queue.threads += usize::from(started.is_ok());
    }
    drop(queue);
    IS_FILLED.notify_one();
}

fn serve() {
    let mut queue = queue();
    loop {
        match queue.tasks.pop_front() {
            Some(task) => {
                drop(queue);
                task();
                queue = self::queue();
            }
            None => {
                queue.idle += 1;
                queue = IS_FILLED.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_wait_for_tasks_end_for_any_number_of_threads() {
        fn sum(depth: u64, threads: usize) -> u64 {
            if depth == 0 {
                return 1;
            }
            let parts: Vec<_> = (0..3).map(|_| Task::offer(threads, move || sum(depth - 1, threads))).collect();
            parts.iter().map(|part| part.result()).sum()
        }
        for threads in [0, 1, 2, 5] {
            assert_eq!(sum(5, threads), 243);
        }
    }

    #[test]
    fn a_queue_that_is_late_takes_no_result() {
        for n in 0..20_000u64 {
            let tasks: Vec<_> = (0..3).map(|k| Task::offer(2, move || n + k)).collect();
            assert_eq!(tasks.iter().map(|task| task.result()).sum::<u64>(), 3 * n + 3);
        }
    }

    #[test]
    fn a_panic_reaches_the_thread_that_needs_the_result() {
        let task = Task::offer(1, || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(|| task.result())).is_err());
        assert_eq!(Task::offer(1, || 5).result(), 5);
    }
}
