import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { afterEach, test } from 'node:test'
import {
  groupsPlan,
  launch,
  noGroupsHere,
  processesWith,
  removeParents,
  runOn,
  runOnce,
  sandboxPlan,
  shell,
  text,
} from './launcher.fixture.ts'

const skip = noGroupsHere
const wide = { memoryBytes: 128 * 2 ** 20, pids: 40 }
const bomb = 'head -c 100M /dev/zero | tail > /dev/null; echo survived'

afterEach(removeParents)

test('control groups measure a run, and the supervisor removes them at its end', { skip }, async () => {
  const { plan } = groupsPlan(wide)
  const launched = await launch(sandboxPlan({ cgroups: plan }))
  const end = await runOn(launched, { script: 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done' })
  assert.ok((end.figures.cpuNs ?? 0) > 1e6, JSON.stringify(end.figures))
  assert.ok((end.figures.memoryPeakBytes ?? 0) > 100_000)
  assert.equal(end.figures.oomKills, 0)
  assert.equal(end.hit, undefined)
  const last = await launched.ended
  assert.deepEqual([last.reason, last.hits, last.left], ['exited', [], []])
  for (const folder of plan.folders) assert.equal(existsSync(folder), false, folder)
})

test('every process of the sandbox is in every control group', { skip }, async () => {
  const { plan } = groupsPlan(wide)
  const launched = await launch(sandboxPlan({ cgroups: plan }))
  const members = plan.folders.map((folder) => readFileSync(`${folder}/cgroup.procs`, 'utf8').trim().split('\n').length)
  assert.deepEqual(members, [2, 2, 2, 2], 'bubblewrap and the init')
  await launched.dispose()
})

test('a program above its memory limit ends with the hit memoryBytes', { skip }, async () => {
  const { plan } = groupsPlan({ memoryBytes: 32 * 2 ** 20, pids: 40 })
  const end = await runOnce(sandboxPlan({ cgroups: plan }), { script: bomb })
  assert.equal(end.hit, 'memoryBytes')
  /* With room enough the same program gets through. */
  const free = groupsPlan({ memoryBytes: 2 ** 30, pids: 40 })
  assert.equal(text((await runOnce(sandboxPlan({ cgroups: free.plan }), { script: bomb })).stdout), 'survived\n')
})

test('a program that survives an OOM kill of its child is killed too', { skip }, async () => {
  const { plan } = groupsPlan({ memoryBytes: 32 * 2 ** 20, pids: 40 })
  const launched = await launch(sandboxPlan({ cgroups: plan }))
  const end = await runOn(launched, { script: `${bomb}; sleep 60` })
  assert.deepEqual([end.hit, end.exit], ['memoryBytes', { signal: 'SIGKILL' }])
  const last = await launched.dispose()
  assert.deepEqual([last.reason, last.limit, last.left], ['watch', 'memoryBytes', []])
})

test('a fork bomb ends with the hit pids, and none of its processes survives', { skip }, async () => {
  const mark = `34${process.pid}`
  const { plan } = groupsPlan({ memoryBytes: 128 * 2 ** 20, pids: 12 })
  const end = await runOnce(sandboxPlan({ cgroups: plan }), { script: `while :; do setsid sleep ${mark} & done` })
  assert.equal(end.hit, 'pids')
  assert.deepEqual(processesWith(mark), [])
})

test('CPU time of all processes together is limited', { skip }, async () => {
  const { plan } = groupsPlan(wide)
  const end = await runOnce(sandboxPlan({ cgroups: plan }), { script: '(while :; do :; done) & while :; do :; done' })
  assert.equal(end.hit, 'cpuMs')
  assert.ok((end.figures.cpuNs ?? 0) >= 2e9)
})

test('without cgroup.kill the supervisor kills every process in the groups', { skip }, async () => {
  const mark = `35${process.pid}`
  const { plan } = groupsPlan(wide)
  const { killFile: _, ...without } = plan
  const launched = await launch(sandboxPlan({ cgroups: without }))
  const script = `for n in 1 2 3 4 5; do setsid sh -c "trap '' TERM; sleep ${mark}; :" & done; sleep ${mark}`
  assert.equal((await runOn(launched, { script }, { wallMs: 200 })).hit, 'wallMs')
  assert.deepEqual(processesWith(mark), [])
  assert.deepEqual((await launched.dispose()).left, [])
})

test('CPU time of earlier turns does not count towards the next turn', { skip }, async () => {
  const { plan } = groupsPlan(wide)
  const watches = plan.watches.map((watch) => (watch.limit === 'cpuMs' ? { ...watch, atLeast: 3e8 } : watch))
  const launched = await launch(sandboxPlan({ cgroups: { ...plan, watches } }))
  const turn = 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo \'{"done":true}\' >&3'
  launched.start(shell(`while read line <&3; do ${turn}; done`), { keep: true })
  let used = 0
  for (let count = 0; count < 40 && used < 4e8; count++) {
    const end = await runOn(launched, { line: 'x' })
    assert.equal(end.hit, undefined)
    used = end.figures.cpuNs ?? 0
  }
  assert.ok(used >= 4e8, `${used}`)
  await launched.dispose()
})

test('a control group that cannot be created or configured is reported with its file, and the others are removed', {
  skip,
}, async () => {
  const { plan } = groupsPlan(wide)
  const broken = { ...plan, settings: [...plan.settings, [`${plan.folders[0]}/no.such.setting`, '1'] as const] }
  await assert.rejects(launch(sandboxPlan({ cgroups: broken })), {
    code: 'SANDBOX_INIT_FAILED',
    message: /no\.such\.setting/,
  })
  for (const folder of plan.folders) assert.equal(existsSync(folder), false, folder)
  const taken = plan.folders[2] ?? ''
  mkdirSync(taken)
  await assert.rejects(launch(sandboxPlan({ cgroups: plan })), {
    code: 'SANDBOX_INIT_FAILED',
    message: new RegExp(taken),
  })
  assert.equal(existsSync(taken), true, 'what was not made is not removed')
  rmdirSync(taken)
})

test('a control group with a foreign child group is not removed and is reported as left', { skip }, async () => {
  const { plan } = groupsPlan(wide)
  const launched = await launch(sandboxPlan({ cgroups: { ...plan, parents: [] } }))
  const inner = `${plan.folders[0]}/kept`
  mkdirSync(inner)
  writeFileSync(`${plan.folders[0]}/memory.limit_in_bytes`, String(wide.memoryBytes))
  assert.deepEqual((await launched.dispose()).left, [plan.folders[0]])
  rmdirSync(inner)
  rmdirSync(plan.folders[0] ?? '')
})
