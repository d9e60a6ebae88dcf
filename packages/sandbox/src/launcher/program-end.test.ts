import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import {
  groupsPlan,
  hostPlan,
  launch,
  noGroupsHere,
  noSandbox,
  processesWith,
  removeParents,
  runOn,
  sandboxPlan,
  shell,
  text,
} from './launcher.fixture.ts'
import type { Launched } from './launcher.ts'

const skip = noSandbox
const token = 'secret12'
const bye = `echo '{"done":true,"code":5,"token":"${token}"}' >&3`
const collect = { files: 9, bytes: 999 }

afterEach(removeParents)

/** A sandbox in which an interpreter waits that runs this shell script for its job. */
async function waiting(script: string, plan = sandboxPlan()): Promise<Launched> {
  const launched = await launch(plan)
  launched.start(shell(`read line <&3; ${script}`))
  return launched
}

test('the run ends when the interpreter reports its end, with complete output, messages and files', {
  skip,
}, async () => {
  const mark = `41${process.pid}`
  const launched = await waiting(
    `echo out; echo err >&2; echo file > f; echo '{"value":1}' >&3; ${bye}; exec sleep ${mark}`,
  )
  const end = await runOn(launched, { line: '{}', token, collect })
  assert.deepEqual([end.exit, end.hit, end.alive], [{ code: 5 }, undefined, false])
  assert.deepEqual([text(end.stdout), text(end.stderr), end.messages], ['out\n', 'err\n', [{ value: 1 }]])
  assert.deepEqual([...end.files.keys()], ['f'])
  assert.equal((await launched.ended).reason, 'exited', 'the sandbox ends by itself')
  assert.deepEqual(processesWith(mark), [])
})

test('children of the interpreter are killed before files are collected', { skip }, async () => {
  const mark = `42${process.pid}`
  const launched = await waiting(`setsid sh -c "sleep ${mark}; :" & echo file > f; ${bye}; wait`)
  const end = await runOn(launched, { line: '{}', token, collect })
  assert.deepEqual([end.exit, [...end.files.keys()]], [{ code: 5 }, ['f']])
  await launched.dispose()
  assert.deepEqual(processesWith(mark), [])
})

test('an interpreter that reports its end and continues is killed with its run', {
  skip,
}, async () => {
  const mark = `43${process.pid}`
  const flood = `while :; do echo x; echo '{"log":"x"}' >&3; : ${mark}; done`
  const launched = await waiting(`${bye}; ${flood}`)
  const end = await runOn(launched, { line: '{}', token })
  assert.deepEqual([end.exit, end.hit], [{ code: 5 }, undefined])
  assert.equal((await launched.ended).reason, 'exited')
  assert.deepEqual(processesWith(mark), [])
})

test('a done line without the token is an ordinary message, and the exit code is that of the process', {
  skip,
}, async () => {
  const script = `echo '{"done":true,"code":0}' >&3; echo '{"done":true,"code":0,"token":"another"}' >&3; echo on; exit 3`
  const launched = await waiting(script)
  const end = await runOn(launched, { line: '{}', token })
  assert.deepEqual([end.exit, text(end.stdout), end.messages.length], [{ code: 3 }, 'on\n', 2])
  const unasked = await waiting(`${bye}; exit 4`)
  assert.deepEqual((await runOn(unasked, { line: '{}' })).exit, { code: 4 })
  await Promise.all([launched.dispose(), unasked.dispose()])
})

test('an interpreter that does not report its end runs until it exits or reaches its wall limit', {
  skip,
}, async () => {
  const plain = await waiting('echo out; exit 6')
  const end = await runOn(plain, { line: '{}', token })
  assert.deepEqual([end.exit, text(end.stdout)], [{ code: 6 }, 'out\n'])
  assert.equal((await plain.ended).reason, 'exited')
  const late = await waiting('sleep 60')
  assert.equal((await runOn(late, { line: '{}', token }, { wallMs: 200 })).hit, 'wallMs')
  await late.dispose()
})

test('a run that ends by report has its CPU and memory figures', { skip: noGroupsHere }, async () => {
  const { plan } = groupsPlan({ memoryBytes: 128 * 2 ** 20, pids: 40 })
  const work = 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'
  const launched = await waiting(`${work}; ${bye}; exec sleep 60`, sandboxPlan({ cgroups: plan }))
  const { figures, exit } = await runOn(launched, { line: '{}', token })
  assert.deepEqual(exit, { code: 5 })
  assert.ok((figures.cpuNs ?? 0) > 1e6 && (figures.memoryPeakBytes ?? 0) > 100_000, JSON.stringify(figures))
  await launched.dispose()
})

test('without a sandbox, all descendants of the interpreter are killed before the run ends', { skip }, async () => {
  const mark = `44${process.pid}`
  const launched = await waiting(`(setsid sleep ${mark} &); ${bye}; exec sleep ${mark}`, hostPlan())
  assert.deepEqual((await runOn(launched, { line: '{}', token })).exit, { code: 5 })
  assert.deepEqual(processesWith(mark), [])
  await launched.dispose()
})
