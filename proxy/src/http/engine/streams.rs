//! The streams of a connection: a slab of small records, found by key or by identifier.
//!
//! A record stays until its user releases it, also when the stream was reset meanwhile: so a place that
//! still costs work is not free, however fast a client resets its streams.

use std::collections::VecDeque;

use super::flow::{ReceiveWindow, SendWindow};
use crate::http::h1::RequestKind;

/// A stream of a connection, for its user. The key of a released stream finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey {
    place: u32,
    /// Number of the stream among all of its connection.
    number: u32,
}

impl StreamKey {
    /// The key of a stream that is to be opened: it finds nothing.
    pub const UNOPENED: Self = Self {
        place: u32::MAX,
        number: 0,
    };

    /// Its place: below the most streams that were open at once. For tables of the stream's user.
    #[must_use]
    pub fn place(self) -> usize {
        usize::try_from(self.place).unwrap_or(usize::MAX)
    }
}

/// A record of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) receiving: Half,
    pub(super) sending: Half,
    pub(super) reset: Reset,
    pub(super) waiting: Waiting,
    /// The connection's turn in which it sent DATA last.
    pub(super) turn: u64,
    /// The kind of request, which decides what its response may have.
    pub(super) request: RequestKind,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// Bytes of the body that have to come, if a Content-Length says so.
    pub(super) expected: Option<u64>,
}

/// How far one direction of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    /// Its head is to come.
    Head,
    /// DATA, or trailers, or the end.
    Body,
    /// Nothing: it has ended.
    Ended,
}

/// Whether a stream was reset, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    No,
    /// By us: its frames may still be on the way, and are ignored.
    Ours,
    Theirs,
}

/// What a stream waits for to send more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    No,
    /// For its own window.
    Stream,
    /// For that of the connection: it is in the queue of the connection.
    Connection,
    /// For its user, who is to be told: it is in the queue of the ready ones.
    Ready,
}

impl Stream {
    pub(super) fn new(id: u32, send_window: u32, receive_window: u32) -> Self {
        Self {
            id,
            receiving: Half::Head,
            sending: Half::Head,
            reset: Reset::No,
            waiting: Waiting::No,
            turn: 0,
            request: RequestKind::Other,
            send_window: SendWindow::new(send_window),
            receive_window: ReceiveWindow::new(receive_window),
            expected: None,
        }
    }

    /// Whether both directions have ended, by themselves or by a reset.
    pub(super) fn is_closed(&self) -> bool {
        self.reset != Reset::No || (self.receiving == Half::Ended && self.sending == Half::Ended)
    }
}

/// The streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    places: Vec<Place>,
    /// Places without a stream.
    free: Vec<u32>,
    /// Identifiers in ascending order, with their places. Identifiers ascend, and the oldest streams
    /// usually end first: both are the cheap ends of a queue.
    ids: VecDeque<(u32, u32)>,
    /// Number of streams so far, modulo 2³².
    added: u32,
}

#[derive(Debug)]
struct Place {
    number: u32,
    stream: Option<Stream>,
}

impl Streams {
    /// Number of streams that were not released.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Number of those that have not ended.
    pub(super) fn open(&self) -> usize {
        let streams = self.places.iter().filter_map(|place| place.stream.as_ref());
        streams.filter(|stream| !stream.is_closed()).count()
    }

    /// Adds a stream with a higher identifier than all before.
    pub(super) fn add(&mut self, stream: Stream) -> StreamKey {
        debug_assert!(self.ids.back().is_none_or(|(last, _)| *last < stream.id));
        self.added = self.added.wrapping_add(1);
        // Identifiers have 31 bits, so there are never more streams.
        let next = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let place = self.free.pop().unwrap_or(next);
        self.ids.push_back((stream.id, place));
        let added = Place {
            number: self.added,
            stream: Some(stream),
        };
        match self.places.get_mut(index(place)) {
            Some(free) => *free = added,
            None => self.places.push(added),
        }
        StreamKey {
            place,
            number: self.added,
        }
    }

    /// Removes a stream.
    pub(super) fn remove(&mut self, key: StreamKey) -> Option<Stream> {
        let place = self.places.get_mut(key.place())?;
        let stream = place.stream.take_if(|_| place.number == key.number)?;
        self.free.push(key.place);
        if let Ok(at) = self.position(stream.id) {
            self.ids.remove(at);
        }
        Some(stream)
    }

    /// The stream of a key.
    pub(super) fn get(&self, key: StreamKey) -> Option<&Stream> {
        let place = self.places.get(key.place())?;
        let stream = place.stream.as_ref();
        stream.filter(|_| place.number == key.number)
    }

    /// The stream of a key.
    pub(super) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream> {
        let place = self.places.get_mut(key.place())?;
        let stream = place.stream.as_mut();
        stream.filter(|_| place.number == key.number)
    }

    /// The stream with an identifier.
    pub(super) fn find(&mut self, id: u32) -> Option<(StreamKey, &mut Stream)> {
        let at = self.position(id).ok()?;
        self.at(at)
    }

    /// The stream at a position in the order of identifiers.
    pub(super) fn at(&mut self, position: usize) -> Option<(StreamKey, &mut Stream)> {
        let (_, place) = *self.ids.get(position)?;
        let slot = self.places.get_mut(index(place))?;
        let number = slot.number;
        Some((StreamKey { place, number }, slot.stream.as_mut()?))
    }

    /// The position of the first stream above an identifier.
    pub(super) fn position_above(&self, id: u32) -> usize {
        self.ids.partition_point(|(known, _)| *known <= id)
    }

    /// Releases memory, if there is no stream. Keys of before still find nothing later.
    pub(super) fn release_memory(&mut self) {
        if self.ids.is_empty() {
            self.ids = VecDeque::new();
            self.places = Vec::new();
            self.free = Vec::new();
        }
    }

    fn position(&self, id: u32) -> Result<usize, usize> {
        // Nearly always none is missing between the oldest one and it.
        let (first, _) = self.ids.front().ok_or(0_usize)?;
        let guess = index(id.wrapping_sub(*first) / 2);
        if self.ids.get(guess).is_some_and(|(known, _)| *known == id) {
            return Ok(guess);
        }
        self.ids.binary_search_by_key(&id, |(known, _)| *known)
    }
}

fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Identifiers of streams that we have reset and released: the latest ones.
#[derive(Debug, Default)]
pub(super) struct ResetIds {
    ids: VecDeque<u32>,
}

impl ResetIds {
    pub(super) fn add(&mut self, id: u32, most: usize) {
        if self.ids.len() >= most {
            self.ids.pop_front();
        }
        self.ids.push_back(id);
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }

    /// Forgets the streams of an idle connection: their frames have arrived.
    pub(super) fn release_memory(&mut self) {
        self.ids = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::{ResetIds, Stream, Streams};

    fn stream(id: u32) -> Stream {
        Stream::new(id, 10, 10)
    }

    #[test]
    fn a_released_key_finds_nothing_although_its_place_is_used_again() {
        let mut streams = Streams::default();
        let one = streams.add(stream(1));
        assert_eq!(streams.remove(one).map(|stream| stream.id), Some(1));
        let three = streams.add(stream(3));
        assert_eq!(three.place(), one.place());
        assert!(streams.get_mut(one).is_none() && streams.remove(one).is_none());
        assert_eq!(streams.get_mut(three).map(|stream| stream.id), Some(3));
        assert_eq!(streams.len(), 1);
        streams.remove(three);
        streams.release_memory();
        let five = streams.add(stream(5));
        assert!(streams.get_mut(one).is_none() && streams.get(five).is_some());
    }

    #[test]
    fn streams_are_found_by_their_identifiers() {
        let mut streams = Streams::default();
        let keys: Vec<_> = [1, 5, 7, 9].map(|id| streams.add(stream(id))).into();
        streams.remove(keys[1]);
        assert_eq!(streams.find(7).map(|(key, _)| key), Some(keys[2]));
        assert!(streams.find(5).is_none() && streams.find(3).is_none());
        assert_eq!(streams.position_above(5), 1);
        assert_eq!(streams.at(1).map(|(_, stream)| stream.id), Some(7));
        assert!(streams.at(3).is_none());
    }

    #[test]
    fn a_record_is_small() {
        assert!(size_of::<Stream>() <= 72, "{}", size_of::<Stream>());
        assert!(
            size_of::<super::Place>() <= 80,
            "{}",
            size_of::<super::Place>()
        );
    }

    #[test]
    fn the_oldest_resets_are_forgotten() {
        let mut ids = ResetIds::default();
        (0..5).for_each(|id| ids.add(id, 3));
        assert_eq!([1, 2, 4].map(|id| ids.contains(id)), [false, true, true]);
    }
}
