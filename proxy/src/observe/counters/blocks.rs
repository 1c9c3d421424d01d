//! Where the counters of routes, binds, listeners and endpoints are kept.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Block;
use crate::names::Interned;

/// Blocks of counters by interned id. It grows with the ids, never moves a block, and is read
/// without a lock. Each block is allocated when it is used, and the places of blocks by the page, so that
/// one request to the last of many thousand routes neither waits for the blocks of all others nor pays
/// for them. Directories of pages double in size, and are allocated once. One shard writes to all blocks,
/// so they may share cache lines.
#[derive(Debug)]
pub struct Blocks<T> {
    directories: [OnceLock<Directory<T>>; DIRECTORIES],
}

type Directory<T> = Box<[OnceLock<Box<Page<T>>>]>;

type Page<T> = [OnceLock<Box<Slot<T>>>; PAGE_SLOTS];

#[derive(Debug)]
struct Slot<T> {
    /// Generation of the owner; `VACANT` before the first one and during a reset.
    generation: AtomicU32,
    block: T,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self {
            directories: [const { OnceLock::new() }; DIRECTORIES],
        }
    }
}

impl<T: Block> Blocks<T> {
    /// The block of an id, for its shard to write.
    #[must_use]
    pub fn of(&self, id: Interned) -> &T {
        let position = Position::of(id.index);
        let pages = self.directories[position.directory].get_or_init(|| position.new_directory());
        let page =
            pages[position.page].get_or_init(|| Box::new([const { OnceLock::new() }; PAGE_SLOTS]));
        let slot = page[position.slot].get_or_init(Box::default);
        if slot.generation.load(Ordering::Relaxed) != id.generation {
            slot.generation.store(VACANT, Ordering::Release);
            slot.block.reset();
            slot.generation.store(id.generation, Ordering::Release);
        }
        &slot.block
    }

    /// The block of an id, for other threads to read; `None` if its shard has not counted yet.
    #[must_use]
    pub fn read(&self, id: Interned) -> Option<&T> {
        let position = Position::of(id.index);
        let pages = self.directories[position.directory].get()?;
        let slot = pages.get(position.page)?.get()?.get(position.slot)?.get()?;
        let owned = slot.generation.load(Ordering::Acquire) == id.generation;
        owned.then_some(&slot.block)
    }
}

impl<T: Default> Default for Slot<T> {
    fn default() -> Self {
        Self {
            generation: AtomicU32::new(VACANT),
            block: T::default(),
        }
    }
}

/// Where the block of an index is.
struct Position {
    directory: usize,
    page: usize,
    slot: usize,
}

impl Position {
    /// Directory `n` holds `2^n` pages.
    fn of(index: u32) -> Self {
        let index = index as usize;
        let pages = index / PAGE_SLOTS + 1;
        let directory = pages.ilog2() as usize;
        Self {
            directory,
            page: pages - (1 << directory),
            slot: index % PAGE_SLOTS,
        }
    }

    fn new_directory<T>(&self) -> Directory<T> {
        std::iter::repeat_with(OnceLock::new)
            .take(1 << self.directory)
            .collect()
    }
}

const PAGE_SLOTS: usize = 64;
/// Enough for every index of 32 bits.
const DIRECTORIES: usize = 27;
const VACANT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_position_of_its_own() {
        let mut next = (0, 0, 0);
        for index in 0..10_000 {
            let Position {
                directory,
                page,
                slot,
            } = Position::of(index);
            assert_eq!((directory, page, slot), next);
            next.2 += 1;
            if next.2 == PAGE_SLOTS {
                next = (directory, page + 1, 0);
            }
            if next.1 == 1 << directory {
                next = (directory + 1, 0, 0);
            }
        }
        assert_eq!(Position::of(u32::MAX).directory, DIRECTORIES - 1);
    }

    #[derive(Debug, Default)]
    struct Nothing;

    impl Block for Nothing {
        fn reset(&self) {}
    }

    #[test]
    fn the_first_use_of_an_id_allocates_one_block() {
        let blocks = Blocks::<Nothing>::default();
        let _ = blocks.of(Interned {
            index: 40_000,
            generation: 0,
        });
        let directories = blocks.directories.iter().filter_map(OnceLock::get);
        let pages: Vec<_> = directories.flatten().filter_map(OnceLock::get).collect();
        assert_eq!(pages.len(), 1);
        let slots = pages.into_iter().flat_map(|page| page.iter());
        assert_eq!(slots.filter_map(OnceLock::get).count(), 1);
    }
}
