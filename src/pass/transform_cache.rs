//! Caches the results of passes, and reuses them for structurally equal graphs.
//!
//! A graph is encoded as a token stream of everything that the passes of a pipeline may read:
//! kinds, attributes, operands, and types; tensor types as one token, where no pass of the pipeline
//! reads more. On a miss the passes run, and the result becomes a [`Blueprint`]. On a hit the
//! result is built from it, with names, source locations and, where these did not count, types of
//! the graph at hand. Hash hits are confirmed by full comparison of the streams.
//!
//! The idea is that of the transformation graphs of Dali (Raiman 2018, §3).
//!
//! A section is part of the stream with its names and comments, because it is kept as it is. In a
//! folder the key is text, compared as a whole; it includes the size and the modification time of
//! the program, as another build may have other passes. Which passes read shapes is a column of the
//! registry: a test gives graphs other shapes, and checks that the results of passes which claim to
//! read none are the same, and that those of the others are not.

use super::entry_text::{self, Unreadable, file_name, key_of};
use super::pipeline::Pipeline;
use super::recording::{Marks, Recording};
use super::run_error::RunError;
use crate::ir::{Blueprint, Detail, Graph, GraphWords, Sources, Unrepeatable};
use crate::text::{PrintOptions, print};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The outcome of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The result was built, no pass ran.
    Hit,
    /// The passes ran, and the next structurally equal graph hits.
    Miss,
    /// The passes ran, and the result was not cached.
    NotCached(Why),
}

/// The reason why a result is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The graph has no encoding.
    Input(Unrepeatable),
    /// The origin of some part of the result is unknown, or the result is not reproducible.
    Result,
    /// A pass made a section of nodes of the graph. Their names and comments moved along, and those
    /// of another graph would differ.
    Section,
    /// The passes fail when shapes are hidden from them, and succeed when they see them.
    ReadsShapes,
}

/// A store of results that outlives the process.
pub trait EntryStore: Send + Sync {
    /// The entry of this name, as it was saved.
    fn load(&self, name: &str) -> Option<Vec<u8>>;
    /// Saves an entry, all of it or nothing.
    fn save(&self, name: &str, entry: &[u8]);
    /// Reports that an entry is unusable, or cannot be written.
    fn complain(&self, name: &str, why: StoreTrouble);
}

/// The problem with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreTrouble {
    /// It is unreadable, or an entry of another graph. The passes run, and it is rewritten.
    Unreadable(Unreadable),
    /// A result does not read back from its text, and stays in this process.
    NoText,
}

/// A store, and the key prefix of all entries of this pipeline.
struct Shelf {
    store: Box<dyn EntryStore>,
    preamble: String,
}

/// An entry as it is saved.
struct Text {
    name: String,
    entry: String,
}

/// The results of one pipeline. Threads may share it.
pub struct TransformCache {
    detail: Detail,
    shelf: Option<Shelf>,
    entries: Mutex<FxHashMap<u128, Vec<Arc<Entry>>>>,
}

#[derive(Debug)]
struct Entry {
    words: Vec<u32>,
    blueprint: Blueprint,
}

/// Runs the passes over a graph.
pub(crate) type RunPasses<'a> = &'a mut dyn FnMut(&mut Graph) -> Result<(), RunError>;

impl TransformCache {
    /// An empty cache for the results of `pipeline`. All other inputs of passes, such as gates and
    /// callees, must be the same in all calls.
    pub fn new(pipeline: &Pipeline) -> TransformCache {
        let reads_shapes = pipeline.stages().iter().any(|stage| stage.pass.reads_shapes);
        let detail = if reads_shapes { Detail::Whole } else { Detail::Erased };
        TransformCache { detail, shelf: None, entries: Mutex::default() }
    }

    /// As `new`, with a store. `preamble` describes all inputs of the passes besides the graph, and
    /// the version of the program.
    pub fn with_store(pipeline: &Pipeline, store: Box<dyn EntryStore>, preamble: &str) -> TransformCache {
        let preamble = format!("passes: {pipeline}\n{preamble}");
        TransformCache { shelf: Some(Shelf { store, preamble }), ..TransformCache::new(pipeline) }
    }

    /// The facts of types that count.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// Transforms a graph: builds the result when that of a structurally equal graph is cached,
    /// otherwise calls `run` and caches the result. `words` is a reusable buffer.
    ///
    /// # Errors
    /// The errors of `run`.
    pub fn transform(&self, graph: &mut Graph, words: &mut GraphWords, run: RunPasses<'_>) -> Result<Lookup, RunError> {
        if let Err(why) = words.read(graph, self.detail) {
            run(graph)?;
            return Ok(Lookup::NotCached(Why::Input(why)));
        }
        let hash = words.hash();
        if self.apply(graph, words, hash) || self.load(graph, words, hash) && self.apply(graph, words, hash) {
            return Ok(Lookup::Hit);
        }
        match self.detail {
            Detail::Whole => self.record_whole(graph, words, hash, run),
            Detail::Erased => self.record_erased(graph, words, hash, run),
        }
    }

    /// Builds the result when that of a structurally equal graph is cached; `words` must hold the
    /// encoding of the graph.
    pub fn apply(&self, graph: &mut Graph, words: &GraphWords, hash: u128) -> bool {
        let found = self.find(hash, &words.words);
        if let Some(entry) = &found {
            graph.rebuild(&entry.blueprint, &words.survey);
        }
        found.is_some()
    }

    fn find(&self, hash: u128, words: &[u32]) -> Option<Arc<Entry>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(&hash)?.iter().find(|entry| entry.words == words).cloned()
    }

    /// Loads an entry from the store; returns whether it is in memory now.
    fn load(&self, graph: &Graph, words: &GraphWords, hash: u128) -> bool {
        let Some(Shelf { store, preamble }) = &self.shelf else { return false };
        let Some(key) = key_of(preamble, graph, self.detail, &words.survey) else { return false };
        let name = file_name(&key);
        let Some(bytes) = store.load(&name) else { return false };
        let found = entry_text::read(&bytes, &key, graph.release()).and_then(|(graph, sources)| {
            let blueprint = Blueprint::new(graph, sources).filter(|blueprint| blueprint.fits(&words.survey));
            blueprint.ok_or(Unreadable::Damaged)
        });
        match found {
            Ok(blueprint) => {
                self.keep(words, hash, blueprint);
                true
            }
            Err(why) => {
                store.complain(&name, StoreTrouble::Unreadable(why));
                false
            }
        }
    }

    /// The entry for the store, when there is one.
    fn entry(&self, before: &Graph, words: &GraphWords, (graph, sources): &(Graph, Sources)) -> Option<Text> {
        let Shelf { store, preamble } = self.shelf.as_ref()?;
        let key = key_of(preamble, before, self.detail, &words.survey)?;
        let (name, entry) = (file_name(&key), entry_text::write(&key, graph, sources));
        if entry.is_none() {
            store.complain(&name, StoreTrouble::NoText);
        }
        entry.map(|entry| Text { name, entry })
    }

    fn save(&self, text: Option<Text>) {
        if let (Some(Shelf { store, .. }), Some(Text { name, entry })) = (&self.shelf, text) {
            store.save(&name, entry.as_bytes());
        }
    }

    fn keep(&self, words: &GraphWords, hash: u128, blueprint: Blueprint) {
        let entry = Arc::new(Entry { words: words.words.clone(), blueprint });
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let same_hash = entries.entry(hash).or_default();
        if same_hash.iter().all(|other| other.words != entry.words) {
            same_hash.push(entry);
        }
    }

    fn record_whole(
        &self,
        graph: &mut Graph,
        words: &GraphWords,
        hash: u128,
        run: RunPasses<'_>,
    ) -> Result<Lookup, RunError> {
        let before = graph.clone();
        graph.keep_journal();
        run(graph)?;
        let recording = Recording { before: &before, survey: &words.survey, marks: Marks::default() };
        if recording.made_section(graph) {
            return Ok(Lookup::NotCached(Why::Section));
        }
        let not_kept = Ok(Lookup::NotCached(Why::Result));
        let Some(result) = recording.result(graph) else { return not_kept };
        let text = self.entry(&before, words, &result);
        let Some(blueprint) = Blueprint::new(result.0, result.1) else { return not_kept };
        // This costs little compared with the passes, and limits errors for another graph to the
        // inherited facts.
        let mut again = before.clone();
        again.rebuild(&blueprint, &words.survey);
        if print(&again, PrintOptions::default()) != print(graph, PrintOptions::default()) {
            return not_kept;
        }
        self.save(text);
        self.keep(words, hash, blueprint);
        Ok(Lookup::Miss)
    }

    /// The passes see a graph with marks for tensor types; the graph itself is built in the same
    /// way as later hits.
    fn record_erased(
        &self,
        graph: &mut Graph,
        words: &GraphWords,
        hash: u128,
        run: RunPasses<'_>,
    ) -> Result<Lookup, RunError> {
        let mut marked = graph.clone();
        let marks = Marks::put(&mut marked, &words.survey);
        marked.keep_journal();
        if run(&mut marked).is_err() {
            // Log messages and remarks must show the real types.
            run(graph)?;
            return Ok(Lookup::NotCached(Why::ReadsShapes));
        }
        let recording = Recording { before: graph, survey: &words.survey, marks };
        if recording.made_section(&marked) {
            run(graph)?;
            return Ok(Lookup::NotCached(Why::Section));
        }
        let result = recording.result(&mut marked);
        let text = result.as_ref().and_then(|result| self.entry(graph, words, result));
        let Some(blueprint) = result.and_then(|(graph, sources)| Blueprint::new(graph, sources)) else {
            run(graph)?;
            return Ok(Lookup::NotCached(Why::Result));
        };
        self.save(text);
        graph.rebuild(&blueprint, &words.survey);
        self.keep(words, hash, blueprint);
        Ok(Lookup::Miss)
    }
}
