import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { somePins, testPinStore } from '@gantry/conformance/internal/host-ports'
import { ToolError } from '@gantry/contract'
import { filePins } from './file.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-pins-'))
after(() => rmSync(folder, { recursive: true }))
let count = 0
const freshFile = (): string => join(folder, `${++count}`, 'pins.json')
const signal = new AbortController().signal

testPinStore('file pins', () => filePins(freshFile()))

async function refused(work: Promise<unknown>): Promise<ToolError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  return error
}

test('pins persist in a file of mode 600, and no temporary file is left', async () => {
  const file = freshFile()
  await filePins(file).save('mcp:files', somePins('Reads.'), signal)
  assert.deepEqual(await filePins(file).load('mcp:files', signal), somePins('Reads.'))
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(join(file, '..')), ['pins.json'])
})

test('a pin whose definition does not match its hash is refused', async () => {
  const file = freshFile()
  await filePins(file).save('mcp:files', somePins('Reads.'), signal)
  writeFileSync(file, readFileSync(file, 'utf8').replace('Reads.', 'Reads and sends.'))
  const error = await refused(filePins(file).load('mcp:files', signal))
  assert.equal(error.code, 'CONFIG_INVALID')
  assert.match(error.message, /\/sources\/mcp:files\/read\/hash/)
})

test('a file that is not a pin file is refused and left unchanged', async () => {
  for (const text of ['', '{', '[]', '{"version":2,"sources":{}}', '{"version":1,"sources":{"a":[]}}']) {
    const file = freshFile()
    await filePins(file).save('mcp:a', {}, signal)
    writeFileSync(file, text)
    assert.equal((await refused(filePins(file).load('mcp:a', signal))).code, 'CONFIG_INVALID', text)
    await refused(filePins(file).save('mcp:a', {}, signal))
    assert.equal(readFileSync(file, 'utf8'), text)
  }
})

test('concurrent saves of three processes are all kept', async () => {
  const file = freshFile()
  const times = 15
  const names = ['a', 'b', 'c']
  const savers = names.map((name) => fork(join(import.meta.dirname, 'saving.fixture.ts'), [file, name]))
  await Promise.all(savers.map((saver) => once(saver, 'message')))
  const ends = savers.map((saver) => once(saver, 'exit'))
  for (const saver of savers) saver.send(times)
  assert.deepEqual(
    (await Promise.all(ends)).map(([code]) => code),
    [0, 0, 0],
  )
  const store = filePins(file)
  const wanted = names.flatMap((name) => Array.from({ length: times }, (_, n) => `${name}${n}`))
  assert.deepEqual(Object.keys((await store.load('mcp:shared', signal)) ?? {}).sort(), wanted.sort())
  for (const name of names) assert.deepEqual(await store.load(`mcp:${name}`, signal), {})
  assert.deepEqual(readdirSync(join(file, '..')), ['pins.json'])
})

test('a save waits for a foreign lock, an abort ends the wait, and the lock is kept', async () => {
  const file = freshFile()
  await filePins(file).save('mcp:a', {}, signal)
  writeFileSync(`${file}.lock`, '123 on elsewhere')
  const controller = new AbortController()
  const waiting = filePins(file).save('mcp:b', {}, controller.signal)
  setImmediate(() => controller.abort(new Error('enough')))
  await assert.rejects(waiting, /enough/)
  assert.deepEqual(await filePins(file).load('mcp:a', signal), {}, 'reading needs no lock')
  assert.equal(await filePins(file).load('mcp:b', signal), undefined)
  assert.equal(readFileSync(`${file}.lock`, 'utf8'), '123 on elsewhere')
})

test('a pin without its time or its author is refused', async () => {
  for (const part of ['at', 'by']) {
    const file = freshFile()
    await filePins(file).save('mcp:files', somePins('Reads.'), signal)
    const book = JSON.parse(readFileSync(file, 'utf8'))
    delete book.sources['mcp:files'].read[part]
    writeFileSync(file, JSON.stringify(book))
    assert.equal((await refused(filePins(file).load('mcp:files', signal))).code, 'CONFIG_INVALID', part)
  }
})
