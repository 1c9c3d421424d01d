//! Stack unwinding from the registers of an interrupted thread, by the unwind tables of its modules,
//! which also covers code without frame pointers, such as libc's.

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::PtrAuthMask;
use framehop::{
    CacheNative, MustNotAllocateDuringUnwind, UnwindRegsNative, Unwinder, UnwinderNative,
};

use super::stack::Stack;
use super::{Sample, modules, thread_name};
use crate::limits::CPU_FRAMES;

/// An unwinder for the code of this process.
pub(super) struct Walker(UnwinderNative<&'static [u8], MustNotAllocateDuringUnwind>);

impl Default for Walker {
    fn default() -> Self {
        let mut unwinder = UnwinderNative::new();
        for module in modules::loaded() {
            unwinder.add_module(module);
        }
        Self(unwinder)
    }
}

/// Scratch state of one walk at a time.
#[derive(Default)]
pub(super) struct WalkState {
    /// Unwind rules of code seen before.
    cache: CacheNative<MustNotAllocateDuringUnwind>,
    stack: Stack,
}

impl Walker {
    /// Unwinds the calling thread's stack from where the timer interrupted it.
    pub(super) fn sample(
        &self,
        times: u64,
        interrupted: &libc::ucontext_t,
        state: &mut WalkState,
    ) -> Sample {
        let mut sample = Sample {
            times,
            thread: thread_name(),
            addresses: [0; CPU_FRAMES],
            depth: 0,
        };
        let (innermost, registers) = registers(interrupted, self.0.max_known_code_address());
        // The copy is from an earlier sample.
        state.stack.forget();
        let mut read = |address| state.stack.read(address).ok_or(());
        let mut frames = self
            .0
            .iter_frames(innermost, registers, &mut state.cache, &mut read);
        // An error, such as for code without unwind information, ends the walk; the frames so far count.
        while let (true, Ok(Some(frame))) = (sample.depth < CPU_FRAMES, frames.next()) {
            // The innermost address is adjusted to look like a return address.
            let address = frame.address() + u64::from(!frame.is_return_address());
            sample.addresses[sample.depth] = usize::try_from(address).unwrap_or_default();
            sample.depth += 1;
        }
        sample
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(clippy::cast_sign_loss, reason = "registers hold what they hold")]
fn registers(interrupted: &libc::ucontext_t, _: u64) -> (u64, UnwindRegsNative) {
    let registers = &interrupted.uc_mcontext.gregs;
    let [instruction, stack, frame] =
        [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP].map(|name| registers[name as usize] as u64);
    (
        instruction,
        UnwindRegsNative::new(instruction, stack, frame),
    )
}

/// Return addresses may be signed in their upper bits (pointer authentication).
#[cfg(target_arch = "aarch64")]
fn registers(interrupted: &libc::ucontext_t, last_code: u64) -> (u64, UnwindRegsNative) {
    let context = &interrupted.uc_mcontext;
    let [frame, link] = [29, 30].map(|number| context.regs[number]);
    let signature = PtrAuthMask::from_max_known_address(last_code);
    let registers = UnwindRegsNative::new_with_ptr_auth_mask(signature, link, context.sp, frame);
    (context.pc, registers)
}
