//! A kernel that forbids io_uring: a filter on the system calls of one child process.

#![expect(unsafe_code, reason = "prctl(2) between fork and exec")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A system call of io_uring; each has the same number on every architecture.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RingCall {
    /// `io_uring_setup`, which makes a ring.
    Setup = 425,
    /// `io_uring_enter`, which every use of it needs.
    Enter = 426,
}

/// Makes the call fail with EPERM in the process that the command starts.
pub(super) fn forbid(command: &mut Command, call: RingCall) {
    // SAFETY: between fork and exec it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(move || install(call)) };
}

fn install(call: RingCall) -> io::Result<()> {
    let mut steps = filter(call);
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).unwrap_or_default(),
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the first call takes plain integers, the second a live program that the kernel copies.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    if installed {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The call's number is at offset 0 of what a filter sees.
fn filter(call: RingCall) -> [libc::sock_filter; 4] {
    const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        #[expect(clippy::cast_possible_truncation, reason = "codes are below 256")]
        let code = code as u16;
        libc::sock_filter { code, jt, jf, k }
    }
    [
        step(LOAD, 0, 0, 0),
        step(EQUAL, 0, 1, call as u32),
        step(RETURN, 0, 0, REFUSE),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
