//! Walks the calling thread's stack by frame pointers. The build enables them; with other flags,
//! heap profiles have truncated stacks.

#![expect(
    unsafe_code,
    reason = "frame pointers are read, and the stack they lie on"
)]

use std::cell::Cell;

use crate::limits::HEAP_FRAMES;

/// Return addresses, the innermost first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frames {
    addresses: [usize; HEAP_FRAMES],
    depth: usize,
}

impl Frames {
    pub(super) fn addresses(&self) -> &[usize] {
        &self.addresses[..self.depth]
    }
}

/// The frame pointer of the enclosing function; a macro, since a call would have its own frame.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! frame_pointer {
    () => {{
        let frame: usize;
        // SAFETY: copies a register.
        unsafe { std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack)) };
        frame
    }};
}
#[cfg(all(target_arch = "aarch64", not(miri)))]
macro_rules! frame_pointer {
    () => {{
        let frame: usize;
        // SAFETY: copies a register.
        unsafe { std::arch::asm!("mov {}, x29", out(reg) frame, options(nomem, nostack)) };
        frame
    }};
}
/// On other architectures no frames are walked.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! frame_pointer {
    () => {
        usize::MAX
    };
}

/// Walks the stack of this thread, up to the first frame without frame pointer.
#[inline(never)]
pub(super) fn stack() -> Frames {
    let mut frames = Frames {
        addresses: [0; HEAP_FRAMES],
        depth: 0,
    };
    let end = stack_end();
    // Without frame pointers the register has any value: ignore addresses below this function's
    // frame.
    let begin = (&raw const frames).addr();
    let mut frame: usize = frame_pointer!();
    while frames.depth < HEAP_FRAMES
        && frame >= begin
        && frame.is_multiple_of(align_of::<usize>())
        && frame.saturating_add(RECORD) <= end
    {
        // SAFETY: the record lies on this thread's stack, between the frame of this function and
        // the stack's end, and is aligned.
        let [outer, address] = unsafe { *std::ptr::with_exposed_provenance::<[usize; 2]>(frame) };
        if address == 0 {
            break;
        }
        frames.addresses[frames.depth] = address;
        frames.depth += 1;
        // Stacks grow down, so a lower value is not a frame pointer.
        if outer <= frame {
            break;
        }
        frame = outer;
    }
    frames
}

/// A frame record: the caller's frame pointer and the return address.
const RECORD: usize = size_of::<[usize; 2]>();

thread_local! {
    /// End of this thread's stack; 0 before it was determined.
    static STACK_END: Cell<usize> = const { Cell::new(0) };
}

fn stack_end() -> usize {
    if STACK_END.get() == 0 {
        // If unknown, 1: no frame is below it.
        STACK_END.set(query_stack_end().unwrap_or(1));
    }
    STACK_END.get()
}

fn query_stack_end() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::uninit();
    let (mut start, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised by the first call, used only where it did so, and
    // destroyed once. libc allocates in these calls from its own heap, not from ours.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let result =
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (result == 0).then(|| start.addr().saturating_add(size))
    }
}

#[cfg(test)]
mod tests {
    use super::stack;

    #[inline(never)]
    fn deeper(levels: usize) -> usize {
        if levels == 0 {
            return std::hint::black_box(stack().addresses().len());
        }
        std::hint::black_box(deeper(levels - 1))
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no frame pointers")]
    fn every_call_adds_one_stack_frame() {
        let (shallow, deep) = (deeper(1), deeper(11));
        assert_eq!(deep - shallow, 10, "{shallow} and {deep} frames");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no frame pointers")]
    fn stack_walking_stops_at_the_end_of_a_threads_stack() {
        let depth = std::thread::spawn(|| deeper(0)).join().expect("walks");
        assert!((3..super::HEAP_FRAMES).contains(&depth), "{depth} frames");
    }
}
