//! Strict zip: the subset that PyTorch and Python's `zipfile` write.
//!
//! An archive that two readers could read differently is refused. Every byte of the file belongs to
//! exactly one thing: entries without gaps or overlaps from the first byte on, the central
//! directory, its end. Local headers say what the directory says; PyTorch leaves sizes and checksum
//! of the local header zero and puts them into a data descriptor after the data:
//!
//! ```text
//! PK34 header(crc 0, sizes 0) name extra "FB" padding to 64 bytes | data | PK78 crc size size | …
//! ```

use crate::byte_source::{ByteSource, SharedBytes};
use crate::refusal::{Refusal, Result, refuse, shown};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// PyTorch's reader keeps 511 bytes of a name; other readers cut earlier.
const LONGEST_NAME: usize = 400;
/// Of deflated code of the library 2 to 12 times its size comes back; deflate reaches 1,032.
const HIGHEST_RATIO: u64 = 200;
/// Entries below this size may have any ratio.
const SMALL: u64 = 1 << 16;
/// Bytes that deflated entries may have together, beyond four times the file.
const MOST_INFLATED: u64 = 64 << 20;
/// A model with a million tensors has a directory of 100 MB.
const LARGEST_DIRECTORY: u64 = 128 << 20;

/// Bytes of a piece of a record: it is still in the caches when it is read again. All elements have
/// sizes that divide it.
const PIECE: u64 = 1 << 18;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR: u32 = 0x0706_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
/// Bytes of the fixed parts.
const LOCAL_SIZE: u64 = 30;
const CENTRAL_SIZE: usize = 46;
const END_SIZE: u64 = 22;
const END64_SIZE: u64 = 56;
const LOCATOR_SIZE: u64 = 20;

const HAS_DESCRIPTOR: u16 = 1 << 3;
/// UTF-8 names, descriptors, and how hard the compressor tried.
const KNOWN_FLAGS: u16 = 0x800 | HAS_DESCRIPTOR | 0x6;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, with `/` between folders.
    pub name: String,
    /// Whether the data are deflated.
    pub deflated: bool,
    /// Bytes of the content.
    pub size: u64,
    packed: u64,
    crc: u32,
    header: u64,
    data: u64,
    flags: u16,
}

impl Entry {
    /// Whether this is a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.name.ends_with('/')
    }

    fn check_sum(&self, crc: &Crc) -> Result<()> {
        if crc.sum() == self.crc {
            return Ok(());
        }
        refuse(format!("its checksum is {:08x}, the directory says {:08x}", crc.sum(), self.crc))
            .map_err(|refusal: Refusal| refusal.with_help("the file is damaged: copy it again"))
    }
}

/// The entries of an archive, and its bytes.
pub struct Container {
    source: Box<dyn ByteSource>,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    /// Bytes of the file.
    pub size: u64,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container").field("entries", &self.entries).field("size", &self.size).finish()
    }
}

/// Little-endian numbers at fixed places; zero beyond the end, which callers exclude.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn short(&self, at: usize) -> u16 {
        self.0.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
    }

    fn word(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    fn long(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
    }
}

/// The offset of the central directory, and the number of entries that it announces.
struct Directory {
    at: u64,
    size: u64,
    count: u64,
}

impl Container {
    /// Reads the directory and all headers; the content of no entry.
    ///
    /// # Errors
    /// The file is no zip archive, or one that two readers could read differently.
    pub fn open(source: Box<dyn ByteSource>) -> Result<Container> {
        let size = source.size().map_err(|error| Refusal::new(format!("its size cannot be read: {error}")))?;
        let mut container = Container { source, entries: Vec::new(), by_name: HashMap::new(), size };
        let directory = container.directory()?;
        container.read_entries(&directory)?;
        container.check_names()?;
        container.check_ratios()?;
        container.check_places(directory.at)?;
        Ok(container)
    }

    /// The entries in the order of the directory.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|at| &self.entries[*at])
    }

    /// The content of an entry, whose checksum is verified.
    ///
    /// # Errors
    /// The content is not what the directory says.
    pub fn content(&self, entry: &Entry) -> Result<Vec<u8>> {
        self.content_in_place(entry).map(Cow::into_owned)
    }

    /// The same, where it is in memory already.
    ///
    /// # Errors
    /// As of [`Container::content`].
    pub(crate) fn content_in_place(&self, entry: &Entry) -> Result<Cow<'_, [u8]>> {
        self.unpacked(entry).map_err(|refusal| refusal.in_record(&entry.name))
    }

    /// The bytes of an entry as they are in the file.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn packed(&self, entry: &Entry) -> Result<Cow<'_, [u8]>> {
        self.bytes_in_place(entry.data, entry.packed)
    }

    fn unpacked(&self, entry: &Entry) -> Result<Cow<'_, [u8]>> {
        let packed = self.bytes_in_place(entry.data, entry.packed)?;
        let content = if entry.deflated { inflated(&packed, entry.size)?.into() } else { packed };
        let mut crc = Crc::new();
        crc.update(&content);
        entry.check_sum(&crc)?;
        Ok(content)
    }

    /// Passes on the content of an entry piece by piece, so that it is not held as a whole. The
    /// checksum is verified at the end.
    ///
    /// # Errors
    /// As of [`Container::content`]; what was passed on is worth nothing then.
    pub(crate) fn in_pieces(&self, entry: &Entry, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut read = || {
            if entry.deflated {
                take(&self.unpacked(entry)?);
                return Ok(());
            }
            let (mut crc, mut piece) = (Crc::new(), Vec::new());
            for at in (0..entry.size).step_by(PIECE as usize) {
                self.read(entry.data + at, PIECE.min(entry.size - at), &mut piece)?;
                crc.update(&piece);
                take(&piece);
            }
            entry.check_sum(&crc)
        };
        read().map_err(|refusal| refusal.in_record(&entry.name))
    }

    /// The content of an entry where it is in a file that is mapped into memory. The checksum is
    /// verified.
    ///
    /// # Errors
    /// As of [`Container::content`].
    pub(crate) fn shared(&self, entry: &Entry) -> Result<Option<(SharedBytes, Range<usize>)>> {
        let range = || {
            let end = entry.data.checked_add(entry.size)?;
            Some(usize::try_from(entry.data).ok()?..usize::try_from(end).ok()?)
        };
        let Some((all, range)) = self.source.shared().filter(|_| !entry.deflated).zip(range()) else { return Ok(None) };
        let Some(content) = (*all).as_ref().get(range.clone()) else { return Ok(None) };
        let mut crc = Crc::new();
        crc.update(content);
        entry.check_sum(&crc).map_err(|refusal| refusal.in_record(&entry.name))?;
        Ok(Some((all, range)))
    }

    fn bytes_in_place(&self, at: u64, count: u64) -> Result<Cow<'_, [u8]>> {
        let place = || Some(usize::try_from(at).ok()?..usize::try_from(at.checked_add(count)?).ok()?);
        match self.source.in_memory().and_then(|all| all.get(place()?)) {
            Some(found) => Ok(found.into()),
            None => self.bytes(at, count).map(Cow::Owned),
        }
    }

    fn bytes(&self, at: u64, count: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read(at, count, &mut bytes)?;
        Ok(bytes)
    }

    fn read(&self, at: u64, count: u64, bytes: &mut Vec<u8>) -> Result<()> {
        let fits = at.checked_add(count).is_some_and(|end| end <= self.size);
        let Some(length) = usize::try_from(count).ok().filter(|_| fits) else {
            return refuse(format!("{count} bytes at {at} are outside the file of {} bytes", self.size));
        };
        bytes.resize(length, 0);
        self.source.read_at(at, bytes).map_err(|error| Refusal::new(format!("cannot be read: {error}")))
    }

    // ---- the end of the central directory

    fn directory(&self) -> Result<Directory> {
        let tail = self.size.min(END_SIZE + u64::from(u16::MAX));
        let bytes = self.bytes(self.size - tail, tail)?;
        let ends = |at: &usize| {
            let fields = Fields(&bytes[*at..]);
            fields.word(0) == END && *at + END_SIZE as usize + usize::from(fields.short(20)) == bytes.len()
        };
        let mut found = (0..bytes.len().saturating_sub(END_SIZE as usize - 1)).filter(ends);
        let Some(at) = found.next() else {
            return refuse("there is no end of a central directory; the file is cut off, or no zip archive")
                .map_err(|refusal: Refusal| refusal.with_help("copy the file again"));
        };
        if found.next().is_some() {
            return refuse("two places could be the end of the central directory");
        }
        self.directory_of_end(&Fields(&bytes[at..]), self.size - tail + at as u64)
    }

    /// Reads the end record at `at`, and that of zip64 before it.
    fn directory_of_end(&self, end: &Fields<'_>, at: u64) -> Result<Directory> {
        let here = Directory { at: end.word(16).into(), size: end.word(12).into(), count: end.short(10).into() };
        let (directory, end_of_directory) = match self.end64(at)? {
            Some((directory, at)) => {
                let agrees = |short: u64, long: u64, all: u64| short == long || short == all;
                let same = agrees(here.at, directory.at, u32::MAX.into())
                    && agrees(here.size, directory.size, u32::MAX.into())
                    && agrees(here.count, directory.count, u16::MAX.into());
                if !same {
                    return refuse("the two ends of the central directory, zip and zip64, disagree");
                }
                (directory, at)
            }
            None => (here, at),
        };
        if end.short(4) != 0 || end.short(6) != 0 || end.short(8) != end.short(10) {
            return refuse("the archive is in several parts");
        }
        if directory.count == 0 {
            return refuse("the archive has no entries");
        }
        match directory.at.checked_add(directory.size).and_then(|end| end_of_directory.checked_sub(end)) {
            Some(0) if directory.size <= LARGEST_DIRECTORY => Ok(directory),
            Some(0) => refuse(format!("the central directory has {} bytes", directory.size)),
            Some(more) => {
                refuse(format!("{more} bytes before the first entry or after the directory belong to nothing"))
            }
            None => refuse("the central directory is not where its end says"),
        }
    }

    /// The directory by zip64, whose record and locator stand right before the end record.
    fn end64(&self, end: u64) -> Result<Option<(Directory, u64)>> {
        let Some(at) = end.checked_sub(LOCATOR_SIZE + END64_SIZE) else { return Ok(None) };
        let bytes = self.bytes(at, LOCATOR_SIZE + END64_SIZE)?;
        let (record, locator) = (Fields(&bytes), Fields(&bytes[END64_SIZE as usize..]));
        if locator.word(0) != LOCATOR {
            return Ok(None);
        }
        let right = record.word(0) == END64 && record.long(4) == END64_SIZE - 12 && locator.long(8) == at;
        if !right || record.word(16) != 0 || record.word(20) != 0 || locator.word(16) > 1 {
            return refuse("the zip64 end of the central directory is malformed");
        }
        if record.long(24) != record.long(32) {
            return refuse("the archive is in several parts");
        }
        Ok(Some((Directory { at: record.long(48), size: record.long(40), count: record.long(32) }, at)))
    }

    // ---- entries

    fn read_entries(&mut self, directory: &Directory) -> Result<()> {
        let bytes = self.bytes(directory.at, directory.size)?;
        let mut rest = bytes.as_slice();
        for _ in 0..directory.count {
            let (entry, used) = central(rest)?;
            self.entries.push(entry);
            rest = &rest[used..];
        }
        if Fields(rest).word(0) == CENTRAL {
            return refuse(format!("the directory has more entries than the {} announced", directory.count));
        }
        if !rest.is_empty() {
            return refuse("bytes after the last entry of the directory");
        }
        Ok(())
    }

    /// No two names that any file system or reader takes for one.
    fn check_names(&mut self) -> Result<()> {
        let mut folded: HashMap<String, usize> = HashMap::new();
        for (at, entry) in self.entries.iter().enumerate() {
            check_name(entry)?;
            if self.by_name.insert(entry.name.clone(), at).is_some() {
                return refuse(format!("duplicate entry name {}", shown(&entry.name)));
            }
            if let Some(other) = folded.insert(entry.name.to_lowercase(), at) {
                let (a, b) = (shown(&self.entries[other].name), shown(&entry.name));
                return refuse(format!("the entry names {a} and {b} differ only in case; PyTorch ignores case"));
            }
        }
        Ok(())
    }

    /// Refuses archives that unpack to much more than they are.
    fn check_ratios(&self) -> Result<()> {
        let mut all = 0u64;
        for entry in self.entries.iter().filter(|entry| entry.deflated) {
            all = all.saturating_add(entry.size);
            if entry.size > SMALL && entry.size / HIGHEST_RATIO > entry.packed {
                let ratio = entry.size / entry.packed.max(1);
                let reason = format!("its compression ratio {ratio} is over the bound {HIGHEST_RATIO}");
                return Err(Refusal::new(reason).in_record(&entry.name));
            }
        }
        if all > self.size.saturating_mul(4).saturating_add(MOST_INFLATED) {
            return refuse(format!("the file of {} bytes unpacks to {all} bytes", self.size));
        }
        Ok(())
    }

    /// Entries cover the file up to the directory, in some order, without gaps and overlaps.
    fn check_places(&mut self, directory: u64) -> Result<()> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|at| self.entries[*at].header);
        let first = self.entries[order[0]].header;
        if first != 0 && first < directory {
            return refuse(format!("{first} bytes before the first entry belong to none"));
        }
        for (i, at) in order.iter().enumerate() {
            let next = order.get(i + 1).map_or(directory, |next| self.entries[*next].header);
            let entry = &self.entries[*at];
            let data = self.check_place(entry, next, directory).map_err(|r| r.in_record(&entry.name))?;
            self.entries[*at].data = data;
        }
        Ok(())
    }

    /// Compares the local header, and the descriptor between data and `next`; where data begin.
    fn check_place(&self, entry: &Entry, next: u64, directory: u64) -> Result<u64> {
        if entry.header.checked_add(LOCAL_SIZE).is_none_or(|end| end > directory) {
            return refuse(format!("its offset {} is outside the file", entry.header));
        }
        let bytes = self.bytes(entry.header, LOCAL_SIZE)?;
        let fields = Fields(&bytes);
        if fields.word(0) != LOCAL {
            return refuse(format!("there is no local header at byte {}", entry.header));
        }
        let (name, extra) = (u64::from(fields.short(26)), u64::from(fields.short(28)));
        let start = entry.header + LOCAL_SIZE;
        let variable = self.bytes(start, name + extra)?;
        let (name_bytes, extra_bytes) = variable.split_at(name as usize);
        check_local(entry, &fields, name_bytes, extra_bytes)?;
        let data = start + name + extra;
        let Some(end) = data.checked_add(entry.packed).filter(|end| *end <= next) else {
            return refuse("it shares bytes with the next entry or the directory");
        };
        self.check_descriptor(entry, end, next)?;
        Ok(data)
    }

    fn check_descriptor(&self, entry: &Entry, end: u64, next: u64) -> Result<()> {
        let width = match (entry.flags & HAS_DESCRIPTOR != 0, next - end) {
            (false, 0) => return Ok(()),
            (true, 16) => 4,
            (true, 24) => 8,
            (true, 0..16) => return refuse("its data descriptor is missing"),
            _ => return refuse("bytes after it belong to no entry"),
        };
        let bytes = self.bytes(end, next - end)?;
        let fields = Fields(&bytes);
        let size = |at: usize| if width == 4 { u64::from(fields.word(at)) } else { fields.long(at) };
        let same = fields.word(0) == DESCRIPTOR && fields.word(4) == entry.crc;
        if !same || size(8) != entry.packed || size(8 + width) != entry.size {
            return refuse("data descriptor and central directory disagree");
        }
        Ok(())
    }
}

/// One entry of the central directory, and its bytes.
fn central(bytes: &[u8]) -> Result<(Entry, usize)> {
    let fields = Fields(bytes);
    if bytes.len() < CENTRAL_SIZE || fields.word(0) != CENTRAL {
        return refuse("the central directory ends before its last entry");
    }
    let lengths = [28, 30, 32].map(|at| usize::from(fields.short(at)));
    let end = CENTRAL_SIZE + lengths.iter().sum::<usize>();
    let Some(variable) = bytes.get(CENTRAL_SIZE..end) else {
        return refuse("the central directory ends inside an entry");
    };
    let (name, rest) = variable.split_at(lengths[0]);
    let name = std::str::from_utf8(name).map_err(|_| Refusal::new("an entry name is not UTF-8"))?;
    let mut sizes = [fields.word(24), fields.word(20), fields.word(42)].map(u64::from);
    widen(&mut sizes, &rest[..lengths[1]]).map_err(|refusal| refusal.in_record(name))?;
    let [size, packed, header] = sizes;
    let entry = Entry {
        name: name.to_owned(),
        deflated: fields.short(10) == 8,
        size,
        packed,
        crc: fields.word(16),
        header,
        data: 0,
        flags: fields.short(8),
    };
    check_entry(&entry, &fields).map_err(|refusal| refusal.in_record(name))?;
    Ok((entry, end))
}

fn check_entry(entry: &Entry, fields: &Fields<'_>) -> Result<()> {
    if entry.flags & 1 != 0 {
        return refuse("it is encrypted");
    }
    if entry.flags & !KNOWN_FLAGS != 0 {
        return refuse(format!("its flags {:#x} are not those of PyTorch", entry.flags));
    }
    if !matches!(fields.short(10), 0 | 8) {
        return refuse(format!("its compression method {} is neither stored nor deflate", fields.short(10)));
    }
    if !entry.deflated && entry.size != entry.packed {
        return refuse(format!("it is stored, but has two sizes, {} and {}", entry.packed, entry.size));
    }
    if fields.short(34) != 0 {
        return refuse("it is in another part of the archive");
    }
    if !entry.name.is_ascii() && entry.flags & 0x800 == 0 {
        return refuse("its name is not ASCII, and is not marked as UTF-8");
    }
    if entry.is_folder() && entry.size != 0 {
        return refuse("it is a folder with content");
    }
    Ok(())
}

/// The numbers of the zip64 extra field, in the places of those that are all ones.
fn widen(numbers: &mut [u64], extra: &[u8]) -> Result<()> {
    let field = extra_fields(extra)?;
    let wide = numbers.iter_mut().filter(|number| **number == u64::from(u32::MAX));
    let mut from = field.unwrap_or_default().chunks_exact(8);
    for number in wide {
        let Some(bytes) = from.next() else { return refuse("zip64 sizes are announced, but are not there") };
        *number = Fields(bytes).long(0);
    }
    if from.next().is_some() || !from.remainder().is_empty() {
        return refuse("its zip64 field has more numbers than announced");
    }
    Ok(())
}

/// The zip64 field among the extra fields.
fn extra_fields(mut extra: &[u8]) -> Result<Option<&[u8]>> {
    let mut found = None;
    while !extra.is_empty() {
        let (kind, length) = (Fields(extra).short(0), usize::from(Fields(extra).short(2)));
        let Some(body) = extra.get(4..4 + length) else { return refuse("an extra field is cut off") };
        match kind {
            0x0001 if found.is_some() => return refuse("it has two zip64 fields"),
            0x0001 => found = Some(body),
            0x7075 => return refuse("an extra field gives it another name"),
            _ => {}
        }
        extra = &extra[4 + length..];
    }
    Ok(found)
}

/// The local header says what the directory says, or leaves it to the descriptor.
fn check_local(entry: &Entry, local: &Fields<'_>, name: &[u8], extra: &[u8]) -> Result<()> {
    if name != entry.name.as_bytes() {
        let here = String::from_utf8_lossy(name);
        return refuse(format!("local header and central directory disagree on the name: {}", shown(&here)));
    }
    if local.short(8) != if entry.deflated { 8 } else { 0 } {
        return refuse("local header and central directory disagree on the method");
    }
    if local.short(6) != entry.flags {
        return refuse("local header and central directory disagree on the flags");
    }
    let (crc, late) = (local.word(14), entry.flags & HAS_DESCRIPTOR != 0);
    let mut sizes = [local.word(22), local.word(18)].map(u64::from);
    let announced = sizes == [0, 0] && extra_fields(extra)?.is_some();
    if !announced {
        widen(&mut sizes, extra)?;
    }
    if late && crc == 0 && sizes == [0, 0] {
        return Ok(());
    }
    if sizes != [entry.size, entry.packed] {
        return refuse("local header and central directory disagree on a size");
    }
    if crc != entry.crc {
        return refuse("local header and central directory disagree on the checksum");
    }
    Ok(())
}

fn check_name(entry: &Entry) -> Result<()> {
    let name = entry.name.as_str();
    if name.is_empty() {
        return refuse("empty entry name");
    }
    if name.len() > LONGEST_NAME {
        return refuse(format!("entry name too long: {} bytes, at most {LONGEST_NAME}: {}", name.len(), shown(name)));
    }
    if name.chars().any(char::is_control) || name.contains('\\') {
        return refuse(format!("entry name with a control character or a backslash: {}", shown(name)));
    }
    let mut parts = name.strip_suffix('/').unwrap_or(name).split('/');
    if name.starts_with('/') || parts.any(|part| matches!(part, "" | "." | "..")) {
        return refuse(format!("entry name leaves the archive: {}", shown(name)));
    }
    Ok(())
}

/// The content of a deflate stream that is exactly these bytes and unpacks to exactly `size`.
fn inflated(packed: &[u8], size: u64) -> Result<Vec<u8>> {
    let room = usize::try_from(size).map_err(|_| Refusal::new("it does not fit into memory"))?;
    let wrong = |error: &dyn std::fmt::Display| Refusal::new(format!("its deflate stream is malformed: {error}"));
    let mut content = vec![0; room + 1];
    let mut stream = Decompress::new(false);
    let status = stream.decompress(packed, &mut content, FlushDecompress::Finish).map_err(|error| wrong(&error))?;
    if stream.total_out() != size || status != Status::StreamEnd {
        return refuse(format!("it unpacks to another size than {size}"));
    }
    if stream.total_in() != packed.len() as u64 {
        return refuse("bytes after the deflate stream");
    }
    content.truncate(room);
    Ok(content)
}
