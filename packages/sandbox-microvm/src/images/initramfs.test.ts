import assert from 'node:assert/strict'
import { test } from 'node:test'
import { initramfs } from './initramfs.ts'

/** Reads an archive as the kernel does. */
function entriesOf(archive: Buffer): readonly (readonly [path: string, mode: number, text: string])[] {
  const found: (readonly [string, number, string])[] = []
  for (let at = 0; at < archive.length; ) {
    assert.equal(archive.toString('latin1', at, at + 6), '070701')
    const field = (index: number): number =>
      Number.parseInt(archive.toString('latin1', at + 6 + index * 8, at + 14 + index * 8), 16)
    const [mode, bytes, name] = [field(1), field(6), field(11)]
    const path = archive.toString('utf8', at + 110, at + 110 + name - 1)
    const data = Math.ceil((at + 110 + name) / 4) * 4
    found.push([path, mode, archive.toString('utf8', data, data + bytes)])
    at = Math.ceil((data + bytes) / 4) * 4
  }
  return found
}

test('an archive has its files in order behind the folders that they are in, and ends as the kernel expects', () => {
  const archive = initramfs([
    { path: 'init', bytes: Buffer.from('program'), mode: 0o755 },
    { path: 'a/b/list', bytes: Buffer.from('x'), mode: 0o644 },
  ])
  assert.deepEqual(entriesOf(archive), [
    ['a', 0o040755, ''],
    ['a/b', 0o040755, ''],
    ['init', 0o100755, 'program'],
    ['a/b/list', 0o100644, 'x'],
    ['TRAILER!!!', 0, ''],
  ])
  assert.equal(archive.length % 4, 0)
})
