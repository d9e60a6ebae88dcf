import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keptIo } from './io.fixture.ts'
import { createProgress, printOutcome } from './print.ts'

test('progress is one line, rewritten in place and erased at the end', () => {
  const io = keptIo({ watched: true, columns: 12 })
  const progress = createProgress(io, {})
  progress.report({ kind: 'progress', progress: 1, total: 3, message: 'one \x1b[31m of many' })
  progress.clear()
  progress.clear()
  assert.equal(io.printed.err, '\r\x1b[2K1/3 one \\e…\r\x1b[2K')
  assert.equal(io.printed.out, '')
})

test('no progress is shown without a terminal or with --quiet', () => {
  for (const [watched, options] of [[false, {}] as const, [true, { quiet: true }] as const]) {
    const io = keptIo({ watched })
    createProgress(io, options).report({ kind: 'progress', progress: 1 })
    assert.equal(io.printed.err, '')
  }
})

test('warnings are always logged, the rest with --verbose, and the progress line comes back', () => {
  const io = keptIo({ watched: true })
  const progress = createProgress(io, {})
  progress.show('busy')
  progress.report({ kind: 'log', level: 'info', message: 'small talk' })
  progress.report({ kind: 'log', level: 'warn', message: 'careful\n', data: { left: 1 } })
  assert.equal(io.printed.err, '\r\x1b[2Kbusy\r\x1b[2Kwarn: careful\\n {"left":1}\n\r\x1b[2Kbusy')
  const verbose = keptIo()
  createProgress(verbose, { verbose: true }).report({ kind: 'log', level: 'debug', message: 'small talk' })
  assert.equal(verbose.printed.err, 'debug: small talk\n')
})

test('files that are bytes or long texts are shown by type and size, and whole with --json', async () => {
  const table = 'a,b\n'.repeat(1_000)
  const output = { stdout: table, files: { 'out/t.csv': table, 'short.txt': 'hi', 'p.bin': { base64: '//8A' } } }
  const io = keptIo()
  await printOutcome({ output }, false, io)
  const shown = JSON.parse(io.printed.out)
  assert.deepEqual(shown.files, {
    'out/t.csv': '[text/csv, 4 KB]',
    'short.txt': 'hi',
    'p.bin': '[application/octet-stream, 3 B]',
  })
  assert.equal(shown.stdout, table)
  const whole = keptIo()
  await printOutcome({ output }, true, whole)
  assert.deepEqual(JSON.parse(whole.printed.out).output, output)
})
