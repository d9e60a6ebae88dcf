import assert from 'node:assert/strict'
import { readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { folderWith } from '../config/config.fixture.ts'
import { keepLog, type LogFileOptions, logFileIn, previousLogFile } from './log-file.ts'
import { createLogBuffer } from './logs.ts'

/** A log that is kept in a file. */
function openLogFile(file: string, options?: LogFileOptions) {
  const buffer = createLogBuffer()
  return { write: buffer.write, close: keepLog(file, buffer, options) }
}

test('the log file keeps the newest lines and one predecessor, readable by its owner alone', async () => {
  using folder = folderWith({})
  const file = logFileIn(join(folder.path, 'data'))
  for (const word of ['one', 'two', 'three']) {
    const log = openLogFile(file, { maxBytes: 8 })
    log.write(`${word}\n`)
    if (word === 'two') log.write('again\n')
    await log.close()
  }
  assert.equal(readFileSync(previousLogFile(file), 'utf8'), 'one\ntwo\nagain\n')
  assert.equal(readFileSync(file, 'utf8'), 'three\n')
  assert.equal(statSync(file).mode & 0o777, 0o600)
})

test('lines that cannot be written are counted in the file once it can be written', async () => {
  using folder = folderWith({ 'a file': '' })
  const blocked = openLogFile(join(folder.path, 'a file', 'service.log'))
  blocked.write('lost\n')
  await blocked.close()

  const file = logFileIn(folder.path)
  const log = openLogFile(file)
  log.write('x'.repeat(2_000_000))
  log.write('kept\n')
  await log.close()
  const [kept, lost = ''] = readFileSync(file, 'utf8').split('\n')
  assert.deepEqual([kept, JSON.parse(lost).lines, JSON.parse(lost).level], ['kept', 1, 'warn'])
})

test('the log is not written through a link', async () => {
  using folder = folderWith({})
  const target = join(folder.path, 'target')
  writeFileSync(target, '')
  symlinkSync(target, logFileIn(folder.path))
  const log = openLogFile(logFileIn(folder.path))
  log.write('x\n')
  await log.close()
  assert.equal(readFileSync(target, 'utf8'), '')
})
