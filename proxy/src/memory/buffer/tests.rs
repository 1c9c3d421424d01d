use std::rc::Rc;

use super::{Buffer, BufferPool};
use crate::limits::{BUFFER_BYTES, BUFFER_HEADROOM_BYTES, SMALL_BUFFER_BYTES};

#[test]
fn a_full_small_buffer_grows_and_an_empty_buffer_shrinks() {
    let pool = Rc::new(BufferPool::default());
    let mut buffer = pool.take_small();
    assert!(buffer.append(&vec![b'x'; SMALL_BUFFER_BYTES]));
    assert_eq!(buffer.room(), 0);
    buffer.make_room();
    assert_eq!(buffer.filled(), vec![b'x'; SMALL_BUFFER_BYTES]);
    assert_eq!(buffer.room(), BUFFER_BYTES - SMALL_BUFFER_BYTES);
    buffer.shrink();
    assert!(!buffer.is_small(), "it has bytes");
    buffer.consume(SMALL_BUFFER_BYTES);
    buffer.shrink();
    assert_eq!(buffer.room(), SMALL_BUFFER_BYTES);
}

#[test]
fn a_buffer_allocates_on_demand_and_releases_when_empty() {
    let pool = Rc::new(BufferPool::default());
    let mut buffer = pool.without_memory();
    buffer.make_room();
    assert_eq!((buffer.room(), pool.lent()), (0, 0));
    buffer.reserve(1);
    assert_eq!(buffer.room(), SMALL_BUFFER_BYTES);
    assert!(buffer.append(b"x"));
    buffer.release();
    assert_eq!(buffer.filled(), b"x", "it has bytes");
    buffer.reserve(SMALL_BUFFER_BYTES);
    assert_eq!(buffer.filled(), b"x");
    assert_eq!(buffer.room(), BUFFER_BYTES - 1);
    buffer.clear();
    buffer.release();
    assert_eq!((buffer.room(), pool.lent()), (0, 0));
}

#[test]
fn a_pool_counts_its_buffers_in_use() {
    let pool = Rc::new(BufferPool::default());
    let (large, small) = (pool.take(), pool.take_small());
    let headrooms = 2 * BUFFER_HEADROOM_BYTES;
    assert_eq!(pool.lent(), headrooms + BUFFER_BYTES + SMALL_BUFFER_BYTES);
    pool.put(small);
    drop(large);
    assert_eq!(pool.lent(), 0);
}

#[test]
fn a_new_head_is_prepended_to_the_buffered_body() {
    let mut buffer = Buffer::with_room();
    assert!(buffer.append(b"old head|body"));
    buffer.consume(b"old head|".len());
    assert!(buffer.prepend(b"a new and longer head|"));
    assert_eq!(buffer.filled(), b"a new and longer head|body");
}

#[test]
fn bytes_that_do_not_fit_leave_the_buffer_unchanged() {
    let mut buffer = Buffer::with_room();
    assert!(buffer.append(b"x"));
    assert!(!buffer.prepend(&[b'y'; BUFFER_HEADROOM_BYTES + 1]));
    let too_much = buffer.room() + 1;
    assert!(!buffer.append(&vec![b'y'; too_much]));
    assert_eq!(buffer.filled(), b"x");
}

#[test]
fn only_the_bytes_written_in_place_are_appended() {
    let mut buffer = Buffer::with_room();
    assert!(buffer.append(b"front|"));
    let written = buffer.append_with(8, |room| {
        assert_eq!(room, [0; 8], "uninitialized memory is not visible");
        room[..3].copy_from_slice(b"abc");
        3
    });
    assert!(written);
    assert_eq!(buffer.filled(), b"front|abc");
    assert!(buffer.append_with(2, |room| {
        room.copy_from_slice(b"de");
        2
    }));
    assert_eq!(buffer.filled(), b"front|abcde");
    let too_much = buffer.room() + 1;
    assert!(!buffer.append_with(too_much, |_| unreachable!("there is no room")));
}

#[test]
fn framing_overwrites_consumed_bytes_or_is_appended() {
    let mut buffer = Buffer::with_room();
    assert!(buffer.append(b"data-rubbish-next"));
    let mut consumed = b"data-rubbish-".len();
    assert!(buffer.put_behind(4, &mut consumed, b"END"));
    assert_eq!(buffer.filled(), b"dataENDbbish-next");
    assert!(
        !buffer.put_behind(4, &mut consumed, &[b'x'; 32]),
        "it would overwrite the next bytes"
    );

    let mut buffer = Buffer::with_room();
    assert!(buffer.append(b"data-"));
    let mut consumed = 5;
    assert!(buffer.put_behind(4, &mut consumed, b"END"));
    assert_eq!(buffer.filled(), b"dataEND");
    assert_eq!(consumed, 7);
}

#[test]
fn consuming_bytes_frees_room() {
    let mut buffer = Buffer::with_room();
    let all = buffer.room();
    assert!(buffer.append(&vec![b'x'; all]));
    assert_eq!(buffer.room(), 0);
    buffer.consume(all - 2);
    buffer.make_room();
    assert_eq!(buffer.filled(), b"xx");
    assert_eq!(buffer.room(), all - 2);
}

#[test]
fn a_pooled_buffer_is_empty() {
    let pool = Rc::new(BufferPool::default());
    let mut buffer = pool.take();
    assert!(buffer.append(b"secret"));
    pool.put(buffer);
    assert!(pool.take().is_empty());
}

#[test]
fn a_pool_keeps_the_buffers_of_a_burst_until_they_are_unused() {
    let pool = Rc::new(BufferPool::default());
    let burst = || {
        let taken: Vec<_> = (0..100).map(|_| pool.take()).collect();
        for buffer in taken {
            pool.put(buffer);
        }
    };
    burst();
    assert_eq!(pool.trim(), 0, "all of them were in use");
    burst();
    assert_eq!(pool.trim(), 0, "and again");
    pool.put(pool.take());
    assert_eq!(pool.trim(), 99);
}
