import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { LaunchJob } from './launcher.ts'
import { FrameError, fromInit, PayloadWriter } from './protocol.ts'
import { createRunIntake, type RunIntake } from './run-intake.ts'

const signal = new AbortController().signal
const job: LaunchJob = {
  stdoutBytes: 10,
  stderrBytes: 10,
  collect: { files: 2, bytes: 10 },
  files: new Map([['in.txt', Buffer.from('in')]]),
}

function intakeOf(): RunIntake {
  return createRunIntake(job, { wallMs: 1, signal })
}

function payload(write: (writer: PayloadWriter) => void): Buffer {
  const writer = new PayloadWriter()
  write(writer)
  return writer.frame(0).subarray(5)
}

const file = (path: string): Buffer => payload((writer) => writer.text(path))
const exit = payload((writer) => {
  writer.u8(0).u32(3).u32(0).u8(0)
  for (let count = 0; count < 7; count++) writer.u64(5)
})

test('arbitrary frames of a hostile init are accepted or refused with a FrameError', () => {
  const frames = fc.array(fc.tuple(fc.integer({ min: 0, max: 12 }), fc.uint8Array({ maxLength: 80 })), {
    maxLength: 30,
  })
  fc.assert(
    fc.property(frames, (sent) => {
      const intake = intakeOf()
      try {
        for (const [type, bytes] of sent) intake.take(type, Buffer.from(bytes))
      } catch (error) {
        assert.ok(error instanceof FrameError, String(error))
      }
      const { stdout, files } = intake.received()
      assert.ok(stdout.bytes.length <= 10)
      assert.ok(files.size <= 2)
    }),
  )
})

test('of a file that is sent twice the later content counts, and both count against the limits', () => {
  const intake = intakeOf()
  for (const text of ['first', 'later']) {
    intake.take(fromInit.file, file('a.txt'))
    intake.take(fromInit.bytes, Buffer.from(text))
  }
  const { files } = intake.received()
  assert.deepEqual(
    [...files].map(([path, bytes]) => [path, Buffer.from(bytes).toString()]),
    [['a.txt', 'later']],
  )
  const greedy = intakeOf()
  assert.throws(() => {
    for (let count = 0; count < 20; count++) greedy.take(fromInit.file, file('a.txt'))
  }, FrameError)
})

test('a stream is kept up to its limit and then marked as truncated', () => {
  const intake = intakeOf()
  intake.take(fromInit.stdout, Buffer.from('0123456789'))
  assert.equal(intake.received().stdout.truncated, false)
  intake.take(fromInit.stdout, Buffer.from('a'))
  const { stdout } = intake.received()
  assert.equal(Buffer.from(stdout.bytes).toString(), '0123456789')
  assert.equal(stdout.truncated, true)
})

test('an init that sends unbounded output is refused with a FrameError', () => {
  const intake = intakeOf()
  const chunk = Buffer.alloc(1_048_576)
  assert.throws(() => {
    for (let count = 0; count < 64; count++) intake.take(fromInit.stderr, chunk)
  }, FrameError)
})

test('an unchanged input file is not collected and does not count towards the limits', () => {
  const intake = intakeOf()
  for (const [path, bytes] of [
    ['in.txt', 'in'],
    ['a', '1'],
    ['b', '22'],
  ] as const) {
    intake.take(fromInit.file, file(path))
    intake.take(fromInit.bytes, Buffer.from(bytes))
  }
  assert.deepEqual([...intake.received().files.keys()], ['a', 'b'])
})

test('a file above the limits is listed as skipped and not collected', () => {
  const intake = intakeOf()
  intake.take(fromInit.file, file('in.txt'))
  intake.take(fromInit.bytes, Buffer.from('changed 012'))
  const { files, skipped } = intake.received()
  assert.equal(files.size, 0)
  assert.deepEqual(skipped, [{ path: 'in.txt', reason: 'over the number of bytes' }])
})

test('a file whose path leaves the workspace or is not UTF-8 is not collected', () => {
  for (const path of ['../a', '/etc/passwd', 'a/../b', 'a//b', '', './a']) {
    const intake = intakeOf()
    intake.take(fromInit.file, file(path))
    intake.take(fromInit.bytes, Buffer.from('x'))
    assert.equal(intake.received().files.size, 0, path)
  }
  const intake = intakeOf()
  intake.take(fromInit.file, Buffer.from([0, 0, 0, 1, 0xff, 0]))
  assert.equal(intake.received().files.size, 0)
})

test('an init that sends more files or bytes than requested is refused with a FrameError', () => {
  const many = intakeOf()
  assert.throws(() => {
    for (let count = 0; count < 9; count++) many.take(fromInit.file, file(`f${count}`))
  }, FrameError)
  const long = intakeOf()
  long.take(fromInit.file, file('f'))
  assert.throws(() => long.take(fromInit.bytes, Buffer.alloc(13)), FrameError)
})

test('frames after the end of a run are refused', () => {
  const intake = intakeOf()
  intake.take(fromInit.exit, exit)
  assert.deepEqual(intake.end?.kind === 'exit' && intake.end.exit, { code: 3 })
  assert.throws(() => intake.take(fromInit.stdout, Buffer.from('x')), FrameError)
})

test('a turn frame ends only a run of a kept interpreter', () => {
  assert.throws(() => intakeOf().take(fromInit.turn, exit), FrameError)
  const single = createRunIntake({ ...job, token: 'x' }, { wallMs: 1, signal }, () => undefined)
  assert.throws(() => single.take(fromInit.turn, exit), FrameError)
  const intake = createRunIntake(job, { wallMs: 1, signal }, () => undefined)
  intake.take(fromInit.message, Buffer.from('{"done":true,"code":4}\n{"done":true,"code":5}\n'))
  intake.take(fromInit.turn, exit)
  assert.deepEqual(intake.end?.kind === 'turn' && intake.end.exit, { code: 4 })
})
