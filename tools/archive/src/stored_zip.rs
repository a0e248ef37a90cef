//! Archives written record by record, without compression: for tools that damage what they read.

use flate2::Crc;

/// A zip archive of records, by name and content, with right sizes and checksums. Names may repeat
/// or be what [`open`](crate::open) refuses. Without zip64: the file is smaller than 4 GiB, and has
/// less than 65,536 records.
pub fn stored_zip(records: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in records {
        let mut crc = Crc::new();
        crc.update(content);
        let at = file.len() as u32;
        let mut fixed = vec![0u8, 0, 0, 8, 0, 0, 0, 0, 0, 0];
        fixed.extend(crc.sum().to_le_bytes());
        fixed.extend((content.len() as u32).to_le_bytes());
        fixed.extend((content.len() as u32).to_le_bytes());
        fixed.extend((name.len() as u16).to_le_bytes());
        fixed.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&fixed);
        file.extend(name.as_bytes());
        file.extend(content);
        directory.extend(b"PK\x01\x02\x00\x00");
        directory.extend(&fixed);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = (records.len() as u16).to_le_bytes();
    let (start, length) = ((file.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count, count].concat());
    file.extend([length, start].concat());
    file.extend([0, 0]);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Container;

    #[test]
    fn written_archives_are_read() {
        let records = [("m/data.pkl".to_owned(), b"123456789".to_vec()), ("m/empty".to_owned(), Vec::new())];
        let bytes = stored_zip(&records);
        assert_eq!(bytes[14..18], 0xcbf4_3926_u32.to_le_bytes());
        let container = Container::open(Box::new(bytes)).expect("it is read");
        let read = |entry| Some((crate::Entry::clone(entry).name, container.content(entry).ok()?));
        let read: Option<Vec<_>> = container.entries().iter().map(read).collect();
        assert_eq!(read.as_deref(), Some(&records[..]));
    }
}
