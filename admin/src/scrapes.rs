//! Metrics as text, which concurrent scrapes share.
//!
//! A scrape waits for a text that is written after its request: the one in progress may lack what has just
//! been counted. All that wait share the next one, so their number changes neither the time nor the memory
//! that they take.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};

use crate::background::Background;
use crate::handles::Handles;
use crate::metrics::Format;
use crate::response::{Encoding, encode};
use crate::upstreams;

/// The scrapes of a process. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Scrapes(Rc<State>);

#[derive(Default)]
struct State {
    /// By format and encoding.
    variants: RefCell<BTreeMap<Variant, Rc<Writing>>>,
    background: Background,
    /// Number of texts so far.
    generation: Cell<u64>,
}

type Variant = (Format, Encoding);

/// The texts of one variant.
struct Writing {
    /// For the text in progress.
    turn: Semaphore,
    /// Where those wait that get the text after it.
    next: RefCell<Option<Waiting>>,
}

type Waiting = watch::Receiver<Option<Scrape>>;

/// Metrics as text.
#[derive(Debug, Clone)]
pub(crate) struct Scrape {
    /// Value of `Content-Type`.
    pub(crate) content_type: &'static str,
    /// The text, encoded as requested.
    pub(crate) text: Bytes,
    /// Counts the texts, from 1.
    pub(crate) generation: u64,
}

impl Scrapes {
    /// The metrics after this call. None if they could not be written.
    pub(crate) async fn scrape(
        &self,
        handles: &Arc<Handles>,
        format: Format,
        encoding: Encoding,
    ) -> Option<Scrape> {
        let mut waiting = self.join(handles, (format, encoding));
        // Fails if the thread that writes them has.
        let written = waiting.wait_for(Option::is_some).await.ok()?;
        written.clone()
    }

    /// Joins those that wait for the next text, or is the first of them.
    fn join(&self, handles: &Arc<Handles>, variant: Variant) -> Waiting {
        let mut variants = self.0.variants.borrow_mut();
        let writing = variants.entry(variant).or_insert_with(|| {
            Rc::new(Writing {
                turn: Semaphore::new(1),
                next: RefCell::default(),
            })
        });
        let mut next = writing.next.borrow_mut();
        if let Some(next) = &*next {
            return next.clone();
        }
        let (sender, waiting) = watch::channel(None);
        *next = Some(waiting.clone());
        let (this, writing, handles) = (self.clone(), Rc::clone(writing), Arc::clone(handles));
        // A task of its own: the connection that has asked first may be closed.
        tokio::task::spawn_local(async move {
            // The semaphore is never closed.
            let _turn = writing.turn.acquire().await;
            writing.next.take();
            let scrape = this.write(handles, variant).await;
            sender.send_if_modified(|sent| {
                *sent = scrape;
                sent.is_some()
            });
        });
        waiting
    }

    async fn write(&self, handles: Arc<Handles>, (format, encoding): Variant) -> Option<Scrape> {
        let live = upstreams::gather(&handles.shards).await;
        let slot = self.0.background.wait().await?;
        let written = slot.result_of(move || {
            let (content_type, text) = (handles.metrics)(format, &live);
            encode(text, encoding).map(|text| (content_type, text))
        });
        let (content_type, text) = written.await?.ok()?;
        let generation = self.0.generation.get() + 1;
        self.0.generation.set(generation);
        Some(Scrape {
            content_type,
            text,
            generation,
        })
    }
}
