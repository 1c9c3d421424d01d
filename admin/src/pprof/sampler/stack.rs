//! Safe reads of a thread's stack, whose bounds are unknown.

#![expect(unsafe_code, reason = "process_vm_readv(2)")]

use std::{io, process};

/// Words copied at a time: 2048 (16 KiB), which covers most stacks.
const WORDS: usize = 2048;

/// A copied part of a stack. The kernel copies it and reports unmapped memory as an error, where a
/// direct read would crash the process.
pub(super) struct Stack {
    process: libc::pid_t,
    /// Address of the first word.
    start: u64,
    /// Number of valid words.
    length: usize,
    words: Box<[u64; WORDS]>,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            process: process::id().cast_signed(),
            start: 0,
            length: 0,
            words: Box::new([0; WORDS]),
        }
    }
}

impl Stack {
    /// The word at an address; None where it is unmapped or not aligned.
    pub(super) fn read(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(WORD) {
            return None;
        }
        if let Some(word) = self.copied(address) {
            return Some(word);
        }
        self.copy(address);
        self.copied(address)
    }

    pub(super) fn forget(&mut self) {
        self.length = 0;
    }

    fn copied(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)? / WORD).ok()?;
        self.words.get(..self.length)?.get(at).copied()
    }

    /// Copies from an address up to the end of the mapped memory.
    fn copy(&mut self, address: u64) {
        let bytes = size_of_val(&*self.words);
        let here = libc::iovec {
            iov_base: self.words.as_mut_ptr().cast(),
            iov_len: bytes,
        };
        let there = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(
                usize::try_from(address).unwrap_or_default(),
            ),
            iov_len: bytes,
        };
        // SAFETY: the words are live, exclusive and of that size. The kernel checks what it reads.
        let copied = unsafe {
            libc::process_vm_readv(self.process, &raw const here, 1, &raw const there, 1, 0)
        };
        self.start = address;
        self.length = usize::try_from(copied).unwrap_or_default() / size_of::<u64>();
    }
}

/// Checks that the kernel allows reading stacks. Otherwise samples would have their innermost function
/// only.
///
/// # Errors
/// The kernel does not allow it.
pub(super) fn is_readable() -> io::Result<()> {
    let word = 0_u64;
    let read = Stack::default().read((&raw const word).addr() as u64);
    let refused = io::Error::last_os_error();
    read.map(drop).ok_or_else(|| {
        let why =
            format!("process_vm_readv: {refused}; allow it in the container's seccomp profile");
        io::Error::new(refused.kind(), why)
    })
}

/// Bytes of a word.
const WORD: u64 = size_of::<u64>() as u64;

#[cfg(test)]
mod tests {
    use super::{Stack, WORDS};

    #[test]
    fn mapped_stack_words_are_read() {
        let words: Vec<u64> = (0..3 * WORDS as u64).collect();
        let mut stack = Stack::default();
        for at in [0, 1, WORDS - 1, WORDS, 3 * WORDS - 1, 0] {
            let address = (&raw const words[at]).addr() as u64;
            assert_eq!(stack.read(address), Some(at as u64));
            assert_eq!(stack.read(address + 1), None, "not aligned");
        }
    }

    #[test]
    fn unmapped_memory_cannot_be_read() {
        let mut stack = Stack::default();
        for address in [0, 8, u64::MAX - 7, 1 << 63] {
            assert_eq!(stack.read(address), None, "{address:#x}");
        }
    }

    #[test]
    fn stack_words_are_read_again_after_forget() {
        let mut word = std::hint::black_box(1_u64);
        let address = (&raw const word).addr() as u64;
        let mut stack = Stack::default();
        assert_eq!(stack.read(address), Some(1));
        word = std::hint::black_box(2);
        stack.forget();
        assert_eq!(stack.read(address), Some(word));
    }
}
