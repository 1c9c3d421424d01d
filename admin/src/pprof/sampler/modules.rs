//! The loaded program and libraries with their unwind tables (`.eh_frame`, System V ABI).

#![expect(
    unsafe_code,
    reason = "dl_iterate_phdr(3), and the tables where they lie in memory"
)]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::slice;

use framehop::{ExplicitModuleSectionInfo, Module};

/// All loaded modules. Those without unwind tables, which are rare, are left out; their code is unwound
/// by frame pointers.
pub(super) fn loaded() -> Vec<Module<&'static [u8]>> {
    let mut modules: Vec<Module<&'static [u8]>> = Vec::new();
    // SAFETY: the callback gets the pointer that is passed here, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut modules).cast()) };
    modules
}

unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, modules: *mut c_void) -> c_int {
    // SAFETY: the linker's own value, for the time of this call.
    let info = unsafe { &*info };
    // SAFETY: as `loaded` passes it.
    let modules = unsafe { &mut *modules.cast::<Vec<Module<&'static [u8]>>>() };
    // SAFETY: the linker says how many headers there are.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    // SAFETY: the headers are those of what is loaded there. Nothing here unloads a library.
    modules.extend(unsafe { module(info.dlpi_addr, headers) });
    0
}

/// # Safety
/// The headers must be those of a module that stays loaded at `base` until the process ends.
unsafe fn module(base: u64, headers: &[libc::Elf64_Phdr]) -> Option<Module<&'static [u8]>> {
    let loaded = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    let code = loaded.clone().map(|header| header.p_vaddr).min()?
        ..loaded
            .clone()
            .map(|header| header.p_vaddr + header.p_memsz)
            .max()?;
    let index = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let index = index.p_vaddr..index.p_vaddr + index.p_memsz;
    // SAFETY: the segment is loaded, and never written.
    let bytes = unsafe { bytes(base, &index) };
    let tables = index.start.checked_add_signed(tables(bytes)?)?;
    // Their size is not given; they extend at most to the end of their segment.
    let segment = loaded
        .map(|header| header.p_vaddr..header.p_vaddr + header.p_filesz)
        .find(|segment| segment.contains(&tables))?;
    let tables = tables..segment.end;
    let sections = ExplicitModuleSectionInfo {
        eh_frame_hdr: Some(bytes),
        eh_frame_hdr_svma: Some(index),
        // SAFETY: as above.
        eh_frame: Some(unsafe { self::bytes(base, &tables) }),
        eh_frame_svma: Some(tables),
        ..ExplicitModuleSectionInfo::default()
    };
    let code = base + code.start..base + code.end;
    Some(Module::new(String::new(), code, base, sections))
}

/// Offset of the tables from the start of their index. Its header has a byte for the version, three for
/// encodings, and the offset (Linux Standard Base, `.eh_frame_hdr`).
fn tables(index: &[u8]) -> Option<i64> {
    /// Signed 32 bits, relative to the field itself (`DW_EH_PE_pcrel | DW_EH_PE_sdata4`), as linkers write it.
    const RELATIVE: u8 = 0x1b;
    let (head, distance) = index.get(..8)?.split_at(4);
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    (head[..2] == [1, RELATIVE]).then(|| i64::from(distance) + 4)
}

/// # Safety
/// The range lies in a segment of the module loaded at `base`, which stays as it is.
unsafe fn bytes(base: u64, range: &Range<u64>) -> &'static [u8] {
    let start = usize::try_from(base + range.start).unwrap_or_default();
    let length = usize::try_from(range.end - range.start).unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance(start), length) }
}

#[cfg(test)]
mod tests {
    use super::{Module, loaded, tables};

    #[test]
    fn the_executable_is_among_the_loaded_modules() {
        let here = tables as *const () as u64;
        let modules = loaded();
        let mut ranges = modules.iter().map(Module::avma_range);
        assert!(ranges.any(|range| range.contains(&here)));
    }

    #[test]
    fn the_eh_frame_table_is_located_by_its_header() {
        for (index, distance) in [
            (&[1, 0x1b, 3, 0x3b, 0x10, 0, 0, 0][..], Some(0x14)),
            (&[1, 0x1b, 3, 0x3b, 0xf0, 0xff, 0xff, 0xff], Some(-12)),
            (&[1, 0x03, 3, 0x3b, 0x10, 0, 0, 0], None),
            (&[2, 0x1b, 3, 0x3b, 0x10, 0, 0, 0], None),
            (&[1, 0x1b, 3], None),
        ] {
            assert_eq!(tables(index), distance, "{index:?}");
        }
    }
}
