import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import type { CgroupPlan } from '../launcher/launcher.ts'
import { asRoot } from './bubblewrap.fixture.ts'
import { type Cgroups, createCgroups, ownTrees } from './cgroups.ts'
import { secondKernel } from './cgroups-kernel.fixture.ts'
import { ownName } from './sandbox-root.ts'

const limits = {
  wallMs: 5_000,
  cpuMs: 500,
  memoryBytes: 33_554_432,
  pids: 8,
  diskBytes: 1,
  stdoutBytes: 1,
  stderrBytes: 1,
}

/** Starts a program inside the groups of a plan, as the launcher does: make, set, join, execute. */
function launch(plan: CgroupPlan, ...command: string[]): ChildProcess {
  for (const folder of plan.folders) mkdirSync(folder)
  for (const [file, text] of plan.settings) writeFileSync(file, text)
  const join = plan.folders.map((folder) => `echo $$ > ${folder}/cgroup.procs`).join(' && ')
  return spawn('/bin/sh', ['-c', `${join} && exec "$@"`, 'sh', ...command], { stdio: ['ignore', 'pipe', 'ignore'] })
}

function figure({ file, key }: { readonly file: string; readonly key?: string }): number {
  const text = readFileSync(file, 'utf8')
  return Number(key === undefined ? text : new RegExp(`^${key} (\\d+)$`, 'm').exec(text)?.[1])
}

function reached(plan: CgroupPlan): string[] {
  return plan.watches.filter((watch) => figure(watch) >= watch.atLeast).map(({ limit }) => limit)
}

async function withCgroups(work: (cgroups: Cgroups) => Promise<void>): Promise<void> {
  const cgroups = await createCgroups({ owner: ownName() })
  try {
    await work(cgroups)
  } finally {
    await cgroups.close()
    for (const parent of cgroups.parents) assert.ok(!existsSync(parent), `${parent} is left`)
  }
}

test(
  'as root, control groups enforce memory, pids and CPU time, and each enforced limit names its controller',
  asRoot,
  async () => {
    await withCgroups(async ({ enforced, parents, missing }) => {
      assert.deepEqual(missing, [])
      assert.match(enforced.memoryBytes ?? '', /^cgroup v[12] memory$/)
      assert.match(enforced.pids ?? '', /^cgroup v[12] pids$/)
      assert.match(enforced.cpuMs ?? '', /^cgroup v(1 cpuacct|2 cpu\.stat)$/)
      for (const parent of parents) assert.match(basename(parent), new RegExp(`^gantry-${process.pid}-`))
    })
  },
)

test(
  'the kernel kills a program above the memory limit and reports it; a program within the limit exits with 0',
  asRoot,
  async () => {
    const fill = (megabytes: number): string[] => ['/usr/bin/python3', '-c', `x = b'1' * ${megabytes} * 1048576`]
    await withCgroups(async (cgroups) => {
      const [small, large] = [cgroups.plan('small', limits), cgroups.plan('large', limits)]
      assert.deepEqual(await once(launch(small, ...fill(8)), 'exit'), [0, null])
      assert.deepEqual(reached(small), [])
      assert.deepEqual(await once(launch(large, ...fill(64)), 'exit'), [null, 'SIGKILL'])
      assert.deepEqual(reached(large), ['memoryBytes'])
      const peak = large.figures.memoryPeakBytes
      assert.ok(peak !== undefined && figure(peak) <= limits.memoryBytes && figure(peak) > 8_388_608)
    })
  },
)

test(
  'the fork above the pids limit fails and is reported; the limit does not count init and bubblewrap',
  asRoot,
  async () => {
    const fork = (count: number): string[] => [
      '/usr/bin/python3',
      '-c',
      `import os, time\nfor n in range(${count}):\n  if os.fork() == 0: time.sleep(1); os._exit(0)`,
    ]
    await withCgroups(async (cgroups) => {
      const [few, many] = [cgroups.plan('few', limits), cgroups.plan('many', limits)]
      assert.deepEqual(await once(launch(few, ...fork(limits.pids + 1)), 'exit'), [0, null])
      assert.deepEqual(reached(few), [])
      assert.deepEqual(await once(launch(many, ...fork(limits.pids + 2)), 'exit'), [1, null])
      assert.deepEqual(reached(many), ['pids'])
    })
  },
)

test('CPU time above the limit is reported, and the CPU quota of a sandbox is one processor', asRoot, async () => {
  await withCgroups(async (cgroups) => {
    const plan = cgroups.plan('spin', limits)
    const spin = 'import time\nwhile time.process_time() < 0.7: pass'
    assert.deepEqual(await once(launch(plan, '/usr/bin/python3', '-c', spin), 'exit'), [0, null])
    assert.deepEqual(reached(plan), ['cpuMs'])
    const quota = plan.settings.filter(([file]) => /cpu\.(max|cfs_quota_us)$/.test(file))
    assert.deepEqual(
      quota.map(([file]) => readFileSync(file, 'utf8').trim().split(' ')[0]),
      ['100000'],
    )
  })
})

test(
  'closing kills every process in the groups, including those that ignore signals or left their session',
  asRoot,
  async () => {
    const cgroups = await createCgroups({ owner: ownName() })
    const plan = cgroups.plan('left', limits)
    const child = launch(plan, '/bin/sh', '-c', 'trap "" TERM HUP; (setsid sh -c "echo up; sleep 60" &) ; sleep 60')
    assert.ok(child.stdout)
    await once(child.stdout, 'data')
    const exit = once(child, 'exit')
    await cgroups.close()
    assert.deepEqual(await exit, [null, 'SIGKILL'])
    for (const folder of [...plan.folders, ...cgroups.parents]) assert.ok(!existsSync(folder), folder)
  },
)

test('control groups that cannot be created are reported as missing, not thrown', async () => {
  const { files, layout } = secondKernel('/cg', '/cg/app', [process.pid], ['memory', 'pids', 'cpu'])
  const closed = {
    ...files,
    make: () => Promise.reject(Object.assign(new Error('no'), { code: 'EACCES' })),
  }
  const cgroups = await createCgroups({ owner: ownName(), files: closed, layout })
  assert.deepEqual(cgroups.enforced, {})
  assert.deepEqual(cgroups.missing, ['cgroup v2: no group can be created in /cg/app (EACCES).'])
  assert.deepEqual(cgroups.plan('a', limits), {
    folders: [],
    parents: [],
    settings: [],
    figures: {},
    watches: [],
  })
  await cgroups.close()
})

test('cgroup v2, simulated: a process alone in its group moves to a child group and returns when closed', async () => {
  const kernel = secondKernel('/cg', '/cg/app', [process.pid], ['memory', 'pids', 'cpu', 'io'])
  const owner = ownName()
  const cgroups = await createCgroups({ owner, files: kernel.files, layout: kernel.layout })
  const parent = `/cg/app/gantry-${owner}`
  assert.deepEqual(cgroups.missing, [])
  assert.deepEqual(cgroups.enforced, {
    memoryBytes: 'cgroup v2 memory',
    pids: 'cgroup v2 pids',
    cpuMs: 'cgroup v2 cpu.stat',
  })
  assert.deepEqual(kernel.pidsIn(`${parent}-self`), [process.pid])
  const at = (name: string): string => join(parent, 'one', name)
  assert.deepEqual(cgroups.plan('one', limits), {
    folders: [`${parent}/one`],
    parents: [parent],
    settings: [
      [at('memory.max'), '33554432'],
      [at('memory.swap.max'), '0'],
      [at('memory.oom.group'), '1'],
      [at('pids.max'), '10'],
      [at('cpu.max'), '100000 100000'],
    ],
    killFile: at('cgroup.kill'),
    figures: { memoryPeakBytes: { file: at('memory.peak') }, cpuUsec: { file: at('cpu.stat'), key: 'usage_usec' } },
    watches: [
      { limit: 'memoryBytes', file: at('memory.events'), key: 'oom_kill', atLeast: 1 },
      { limit: 'pids', file: at('pids.events'), key: 'max', atLeast: 1 },
      { limit: 'cpuMs', file: at('cpu.stat'), key: 'usage_usec', atLeast: 500_000 },
    ],
  })
  await cgroups.close()
  assert.deepEqual(kernel.groups(), ['/cg', '/cg/app'])
  assert.deepEqual(kernel.pidsIn('/cg/app'), [process.pid])
})

test('cgroup v2, simulated: a group with other processes enforces no memory or pids limit, and the reason is reported', async () => {
  const kernel = secondKernel('/cg', '/cg/app', [process.pid, 1], ['memory', 'pids', 'cpu'])
  const cgroups = await createCgroups({ owner: ownName(), files: kernel.files, layout: kernel.layout })
  assert.deepEqual(cgroups.enforced, { cpuMs: 'cgroup v2 cpu.stat' })
  assert.deepEqual(cgroups.missing, [
    'The control group /cg/app contains other processes, so it cannot enable controllers for its children.',
  ])
  assert.deepEqual(kernel.pidsIn('/cg/app'), [process.pid, 1])
  assert.match(cgroups.plan('one', limits).killFile ?? '', /\/one\/cgroup\.kill$/)
  await cgroups.close()
  assert.deepEqual(kernel.groups(), ['/cg', '/cg/app'])
})

test('cgroup v2, simulated: controllers that are not delegated to the group are reported as missing', async () => {
  const kernel = secondKernel('/cg', '/cg/app', [], ['cpu'])
  const cgroups = await createCgroups({ owner: ownName(), files: kernel.files, layout: kernel.layout })
  assert.deepEqual(cgroups.missing, [
    'No control group of this process has the controller memory.',
    'No control group of this process has the controller pids.',
  ])
  await cgroups.close()
})

test('ownTrees returns the original group of a process that moved to its child group', async () => {
  const mountinfo = '30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n'
  const [tree] = await ownTrees({ cgroup: `0::/app/gantry-${ownName()}-self\n`, mountinfo })
  assert.equal(tree?.folder, '/cg/app')
})

test('createCgroups announces the groups before it creates one', asRoot, async () => {
  const seen: boolean[] = []
  const announce = async (folders: readonly string[]): Promise<void> => {
    seen.push(...folders.map((folder) => existsSync(folder)))
  }
  const cgroups = await createCgroups({ owner: ownName(), announce })
  await cgroups.close()
  assert.ok(seen.length > 0 && !seen.includes(true))
})
