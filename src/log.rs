//! Log messages of passes: `JIT_LOG_LEVEL`.
//!
//! A pass reports facts with [`graph_dump!`](crate::graph_dump),
//! [`graph_update!`](crate::graph_update) and [`graph_debug!`](crate::graph_debug), as PyTorch's
//! passes do with the macros of those names, independent of any subscriber. The driver parses the
//! user's request into a [`Spec`], builds a [`subscriber`] from it and runs the passes inside
//! `tracing::subscriber::with_default`. That scope is the thread, so that the logs of files
//! processed in parallel stay separate; nothing here is global. Without a subscriber, a log
//! statement costs one load and one comparison, and its arguments are not evaluated.
//!
//! The messages are formatted as PyTorch's, every line with a prefix of level, file and line:
//! ```text
//! [DUMP guard_elimination.rs:020] After moving guards to definitions
//! [DUMP guard_elimination.rs:020] graph(%x.1 : Float(*, *)):
//! [UPDATE guard_elimination.rs:047] Moved 32 to x.1
//! ```
//!
//! A driver subscribes for the duration of one unit of work:
#![doc = "```ignore"]
#![doc = include_str!("log/subscribing_example.rs")]
#![doc = "```"]

mod did_you_mean;
mod spec;
#[cfg(test)]
mod subscribing_example;

pub use did_you_mean::did_you_mean;
pub use spec::{FLAG, Problem, Spec, Verbosity, Warning, file_stem, resolve_spec};
pub use spec::{KnownNames, SpecError, parse_spec};
/// For the macros, which expand in crates that need not depend on `tracing` themselves.
pub use tracing;

use std::fmt::{self, Write};
use std::sync::LazyLock;
use tracing::field::{Field, Visit};
use tracing::subscriber::{Interest, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The names of our three kinds of event, the most verbose last; they distinguish our events from
/// those of other crates.
const EVENTS: [(&str, Verbosity); 3] =
    [("GRAPH_DUMP", Verbosity::Dump), ("GRAPH_UPDATE", Verbosity::Update), ("GRAPH_DEBUG", Verbosity::Debug)];

/// Logs a whole graph: `graph_dump!("After fusion", graph)`. The arguments are a title and any
/// value with `Display`.
#[macro_export]
macro_rules! graph_dump {
    ($title:expr, $graph:expr $(,)?) => {
        $crate::log::tracing::event!(
            name: "GRAPH_DUMP",
            target: ::core::module_path!(),
            $crate::log::tracing::Level::INFO,
            message = ::core::format_args!("{}\n{}", $title, $graph)
        )
    };
}

/// Logs a change of the graph, with the arguments of `format!`:
/// `graph_update!("Moved {guard} to {value}")`.
#[macro_export]
macro_rules! graph_update {
    ($($argument:tt)+) => {
        $crate::log::tracing::event!(
            name: "GRAPH_UPDATE",
            target: ::core::module_path!(),
            $crate::log::tracing::Level::DEBUG,
            message = ::core::format_args!($($argument)+)
        )
    };
}

/// Logs a reason, mainly for not changing something, with the arguments of `format!`.
#[macro_export]
macro_rules! graph_debug {
    ($($argument:tt)+) => {
        $crate::log::tracing::event!(
            name: "GRAPH_DEBUG",
            target: ::core::module_path!(),
            $crate::log::tracing::Level::TRACE,
            message = ::core::format_args!($($argument)+)
        )
    };
}

/// A subscriber for one invocation: pass it to `tracing::subscriber::with_default`.
///
/// `sink` gets each message as a whole, with a prefix on every line and a line feed after every
/// line, so that messages of several threads may share a stream.
pub fn subscriber(spec: Spec, sink: impl Fn(&str) + Send + Sync + 'static) -> impl Subscriber + Send + Sync {
    tracing_subscriber::registry().with(layer(spec, sink))
}

/// The part of [`subscriber`] that can be combined with other layers on one registry.
pub(crate) fn layer<S>(spec: Spec, sink: impl Fn(&str) + Send + Sync + 'static) -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    LazyLock::force(&SECOND);
    Printer { sink }.with_filter(ByFile { spec })
}

/// A permanent subscriber that accepts nothing. While there is a single subscriber, `tracing` (0.1)
/// caches the interest of the first thread that reaches a statement for all threads: a thread
/// without a subscriber would disable it.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// The kind of our event for this statement, if it is one.
fn kind(metadata: &Metadata) -> Option<Verbosity> {
    EVENTS.iter().find(|(name, _)| *name == metadata.name()).map(|(_, verbosity)| *verbosity)
}

/// Filters by the [`Spec`].
struct ByFile {
    spec: Spec,
}

impl ByFile {
    fn is_enabled(&self, metadata: &Metadata) -> bool {
        let allowed = || self.spec.verbosity(file_stem(metadata.file()?));
        kind(metadata).is_some_and(|wanted| allowed().is_some_and(|verbosity| wanted <= verbosity))
    }
}

impl<S> Filter<S> for ByFile {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.is_enabled(metadata)
    }

    /// Never "always": another thread, without a subscriber, would then evaluate the arguments.
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.is_enabled(metadata) { Interest::sometimes() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.spec.loudest().map_or(LevelFilter::OFF, |verbosity| match verbosity {
            Verbosity::Dump => LevelFilter::from_level(Level::INFO),
            Verbosity::Update => LevelFilter::from_level(Level::DEBUG),
            Verbosity::Debug => LevelFilter::from_level(Level::TRACE),
        }))
    }
}

/// Formats messages.
struct Printer<F> {
    sink: F,
}

impl<S: Subscriber, F: Fn(&str) + 'static> Layer<S> for Printer<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let Some(kind) = kind(metadata) else { return };
        let mut message = Message(String::new());
        event.record(&mut message);
        (self.sink)(&prefixed(kind, metadata.file().unwrap_or("?"), metadata.line().unwrap_or(0), &message.0));
    }
}

/// Prefixes every line of `message` with `[LEVEL file.rs:NNN] `. At least three digits, as in
/// PyTorch, keep short files aligned.
fn prefixed(kind: Verbosity, path: &str, line: u32, message: &str) -> String {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let prefix = format!("[{} {file}:{line:03}] ", kind.word());
    let mut out = String::with_capacity(message.len() + 2 * prefix.len());
    for line in message.lines() {
        out.push_str(&prefix);
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Collects the text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string fails only when the value itself does; then the partial text is
            // used.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::{Arc, Barrier, Mutex};
    use tracing::subscriber::with_default;

    const KNOWN: KnownNames = KnownNames(&[("log", &["speak"]), ("other", &[])]);

    /// The messages of `work` under the specification `spec`.
    fn heard(spec: &str, work: impl FnOnce()) -> String {
        let text = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&text);
        let (spec, _) = parse_spec(spec, &KNOWN).unwrap();
        with_default(subscriber(spec, move |s| sink.lock().unwrap().push_str(s)), work);
        text.lock().unwrap().clone()
    }

    fn speak() {
        graph_dump!("A title", "graph(%x : Tensor):\n  return (%x)\n");
        graph_update!("Moved {} to {}", 32, "x.1");
        graph_debug!("cannot remove {x}", x = 3);
        tracing::info!("another event");
    }

    fn levels(text: &str) -> Vec<&str> {
        text.lines().map(|l| l[1..].split(' ').next().unwrap()).collect()
    }

    #[test]
    fn levels_include_lower_ones() {
        assert_eq!(levels(&heard("log=dump", speak)), ["DUMP"; 3]);
        assert_eq!(levels(&heard("log", speak)), ["DUMP", "DUMP", "DUMP", "UPDATE"]);
        assert_eq!(levels(&heard(">speak", speak)), ["DUMP", "DUMP", "DUMP", "UPDATE", "DEBUG"]);
        assert_eq!(heard("", speak), "");
        assert_eq!(heard(">other", speak), "");
    }

    #[test]
    fn every_line_has_its_prefix() {
        let text = heard("log", || graph_dump!("T", "graph():\n  return ()\n"));
        let lines: Vec<&str> = text.lines().map(|l| l.split_once("] ").unwrap().1).collect();
        assert_eq!(lines, ["T", "graph():", "  return ()"]);
        let (head, _) = text.split_once(']').unwrap();
        let number = head.strip_prefix("[DUMP log.rs:").unwrap();
        assert!(number.len() >= 3 && number.parse::<u32>().is_ok(), "{head}");
    }

    #[test]
    fn short_line_numbers_are_padded() {
        let at = |line| prefixed(Verbosity::Update, "passes\\fuser.rs", line, "x");
        assert_eq!(at(7), "[UPDATE fuser.rs:007] x\n");
        assert_eq!(at(44), "[UPDATE fuser.rs:044] x\n");
        assert_eq!(at(1234), "[UPDATE fuser.rs:1234] x\n");
    }

    #[test]
    fn silence_evaluates_nothing() {
        let count = Cell::new(0);
        let touch = || {
            count.set(count.get() + 1);
            count.get()
        };
        let work = || {
            graph_dump!("T", touch());
            graph_update!("{}", touch());
            graph_debug!("{}", touch());
        };
        work();
        heard("", work);
        heard(">other", work);
        assert_eq!(count.get(), 0);
        heard("log", work);
        assert_eq!(count.get(), 2);
        // A subscriber in another thread accepts the same statements; this thread has none yet.
        let (started, done) = (Barrier::new(2), Barrier::new(2));
        let listen = || {
            heard(">log", || {
                speak();
                started.wait();
                done.wait();
            })
        };
        std::thread::scope(|scope| {
            scope.spawn(listen);
            started.wait();
            work();
            done.wait();
        });
        assert_eq!(count.get(), 2);
    }

    #[test]
    fn threads_do_not_mix() {
        let say = |n: usize| {
            (0..200).for_each(|i| {
                graph_update!("thread {n} message {i}");
                graph_debug!("thread {n} reason {i}");
            })
        };
        let specs = ["log", ">log", "", "log=dump"];
        std::thread::scope(|scope| {
            let spawn = |n: usize| (n, scope.spawn(move || heard(specs[n % 4], || say(n))));
            let threads: Vec<_> = (0..16).map(spawn).collect();
            for (n, thread) in threads {
                let text = thread.join().unwrap();
                assert_eq!(text.lines().count(), [200, 400, 0, 0][n % 4], "{n}");
                assert!(text.lines().all(|l| l.contains(&format!("] thread {n} "))));
            }
        });
    }

    #[test]
    fn a_message_arrives_in_one_piece() {
        let pieces = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&pieces);
        let (spec, _) = parse_spec("log", &KNOWN).unwrap();
        with_default(subscriber(spec, move |s| sink.lock().unwrap().push(s.to_owned())), speak);
        assert_eq!(pieces.lock().unwrap().len(), 2);
    }
}
