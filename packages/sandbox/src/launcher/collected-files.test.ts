import assert from 'node:assert/strict'
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hostPlan, launch, place, runOn, runOnce, text } from './launcher.fixture.ts'
import type { LaunchFile } from './launcher.ts'

const skip = process.platform === 'linux' ? false : 'needs Linux'

test('files are written with their folders and modes, and new files are collected in order', { skip }, async () => {
  const files = new Map<string, Uint8Array | LaunchFile>([
    ['a/b/kept.txt', Buffer.from('kept')],
    ['run.sh', { bytes: Buffer.from('#!/bin/sh\necho ran > out/z\n'), mode: 0o755 }],
    ['big', Buffer.alloc(200_000, 'x')],
  ])
  const script = 'mkdir out .gantry; echo hidden > .gantry/x; ./run.sh; wc -c < big; echo new > a/b/new.txt'
  const end = await runOnce(hostPlan(), { script, files, collect: { files: 5, bytes: 1_000 } })
  assert.equal(text(end.stdout).trim(), '200000')
  assert.deepEqual(
    [...end.files].map(([path, bytes]) => [path, Buffer.from(bytes).toString()]),
    [
      ['a/b/new.txt', 'new\n'],
      ['out/z', 'ran\n'],
    ],
  )
  assert.deepEqual(end.skipped, [])
})

test('symbolic links, pipes, sparse files over the limit and deep folders are skipped, each with a reason', {
  skip,
}, async () => {
  const script = `ln -s /etc/passwd link; mkfifo pipe; truncate -s 1T sparse; mkdir -p ${'d/'.repeat(40)}; echo ok > fine`
  const end = await runOnce(hostPlan(), { script, collect: { files: 9, bytes: 100 } })
  assert.deepEqual([...end.files.keys()], ['fine'])
  const reasons = new Map(end.skipped.map(({ path, reason }) => [path, reason]))
  assert.equal(reasons.get('link'), 'a symbolic link')
  assert.equal(reasons.get('pipe'), 'a pipe')
  assert.equal(reasons.get('sparse'), 'over the number of bytes')
  assert.equal([...reasons.values()].filter((reason) => reason === 'too deep').length, 1)
})

test('the number of collected files is limited', { skip }, async () => {
  const end = await runOnce(hostPlan(), { script: 'touch 1 2 3 4 5', collect: { files: 2, bytes: 10 } })
  assert.deepEqual([...end.files.keys()], ['1', '2'])
  assert.equal(end.skipped.length, 3)
})

test('writing an input file does not follow symbolic links', { skip }, async () => {
  const plan = hostPlan()
  const outside = join(place, 'outside')
  mkdirSync(outside)
  writeFileSync(join(place, 'victim'), 'untouched')
  symlinkSync(outside, join(plan.workspace, 'folder'))
  symlinkSync(join(place, 'victim'), join(plan.workspace, 'file'))
  const launched = await launch(plan)
  const through = await runOn(launched, { script: 'true', files: new Map([['folder/x', Buffer.from('x')]]) })
  assert.deepEqual(through.unwritten?.path, 'folder/x')
  assert.equal(existsSync(join(outside, 'x')), false)
  await launched.dispose()
  const second = hostPlan()
  symlinkSync(join(place, 'victim'), join(second.workspace, 'file'))
  const end = await runOnce(second, {
    script: 'cat file victim 2>/dev/null; cat ../victim',
    files: new Map([['file', Buffer.from('mine ')]]),
  })
  assert.equal(text(end.stdout), 'mine untouched')
})

test('an input file that cannot be written ends the run before the program starts', { skip }, async () => {
  for (const path of ['../x', 'a/../../x', 'a'.repeat(300)]) {
    const end = await runOnce(hostPlan(), { script: 'echo ran', files: new Map([[path, Buffer.from('x')]]) })
    assert.equal(end.unwritten?.path, path)
    assert.equal(text(end.stdout), '')
  }
})

test('the workspace is removed with deep, unreadable and special files in it', { skip }, async () => {
  const plan = hostPlan()
  const deep = 'i=0; while [ $i -lt 600 ]; do mkdir d && cd d; i=$((i+1)); done; cd "$TOP"'
  const script = `TOP=$PWD; ${deep}; mkdir shut && touch shut/x && chmod 000 shut; ln -s / up; mkfifo pipe; echo done`
  const launched = await launch(plan)
  assert.equal(text((await runOn(launched, { script })).stdout), 'done\n')
  assert.deepEqual((await launched.dispose()).left, [])
  assert.equal(existsSync(plan.workspace), false)
})
