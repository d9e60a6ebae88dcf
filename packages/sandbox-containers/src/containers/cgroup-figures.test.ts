import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { type CgroupSources, cgroupSources, limitSocketBuffers, readFigures, readMemory } from './cgroup-figures.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gantry-figures-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Texts of kernel files, by their path below the folder that stands for /sys/fs/cgroup. */
function write(texts: { readonly [path: string]: string }): void {
  for (const [path, text] of Object.entries(texts)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
}

/** The sources of a process in these groups, given as the lines of its /proc/PID/cgroup. */
function sourcesOf(...lines: readonly string[]): CgroupSources {
  write({ '42/cgroup': `${lines.join('\n')}\n` })
  const sources = cgroupSources(42, { processes: folder, groups: folder })
  assert.ok(sources)
  return sources
}

const limits = { cpuMs: 1_000 }
const first = ['7:memory:/docker/a', '4:cpu,cpuacct:/docker/a', '3:pids:/docker/a', '0::/docker/a']
const calmFirst = {
  'cpu,cpuacct/docker/a/cpuacct.usage': '250000000\n',
  'memory/docker/a/memory.max_usage_in_bytes': '4096000\n',
  'memory/docker/a/memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 0\n',
  'memory/docker/a/memory.kmem.tcp.failcnt': '0\n',
  'pids/docker/a/pids.events': 'max 0\n',
}
const calmSecond = {
  'docker/a/cpu.stat': 'usage_usec 250000\nuser_usec 200000\nsystem_usec 50000\n',
  'docker/a/memory.peak': '4096000\n',
  'docker/a/memory.events': 'low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\n',
  'docker/a/pids.events': 'max 0\n',
}

test('figures of version 1 come from the hierarchy of each controller, whichever it shares one with', () => {
  write(calmFirst)
  const sources = sourcesOf(...first)
  assert.equal(sources.version, 1)
  assert.deepEqual(readFigures(sources, limits), {
    figures: { cpuNs: 250_000_000, memoryPeakBytes: 4_096_000 },
    hits: [],
  })
})

test('figures of version 2 come from the one hierarchy, with CPU time in nanoseconds', () => {
  write(calmSecond)
  const sources = sourcesOf('0::/docker/a')
  assert.equal(sources.version, 2)
  assert.deepEqual(readFigures(sources, limits), {
    figures: { cpuNs: 250_000_000, memoryPeakBytes: 4_096_000 },
    hits: [],
  })
})

const changes = [
  ['memoryBytes', 'memory/docker/a/memory.oom_control', 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n'],
  ['memoryBytes', 'memory/docker/a/memory.kmem.tcp.failcnt', '3\n'],
  ['pids', 'pids/docker/a/pids.events', 'max 1\n'],
  ['cpuMs', 'cpu,cpuacct/docker/a/cpuacct.usage', '1000000000\n'],
  ['memoryBytes', 'docker/a/memory.events', 'low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n'],
  ['pids', 'docker/a/pids.events', 'max 5\n'],
  ['cpuMs', 'docker/a/cpu.stat', 'usage_usec 1000000\nuser_usec 1\n'],
] as const
for (const [limit, path, text] of changes) {
  test(`${path} shows that ${limit} was hit`, () => {
    const isFirst = !path.startsWith('docker/')
    write({ ...(isFirst ? calmFirst : calmSecond), [path]: text })
    const sources = isFirst ? sourcesOf(...first) : sourcesOf('0::/docker/a')
    assert.deepEqual(readFigures(sources, limits).hits, [limit])
  })
}

test('what the kernel does not have, or has in another form, is left out', () => {
  write({ 'docker/a/memory.peak': 'max\n', 'docker/a/cpu.stat': 'user_usec 5\n' })
  assert.deepEqual(readFigures(sourcesOf('0::/docker/a'), limits), { figures: {}, hits: [] })
})

test('memory in use is counted without the cache of files that the kernel may drop', () => {
  write({
    ...calmFirst,
    'memory/docker/a/memory.usage_in_bytes': '9000\n',
    'memory/docker/a/memory.stat': 'inactive_file 1\ntotal_inactive_file 2000\n',
  })
  assert.equal(readMemory(sourcesOf(...first)), 7_000)
  write({ 'docker/a/memory.current': '9000\n', 'docker/a/memory.stat': 'anon 5\ninactive_file 3000\n' })
  assert.equal(readMemory(sourcesOf('0::/docker/a')), 6_000)
  rmSync(join(folder, 'docker/a/memory.current'))
  assert.equal(readMemory(sourcesOf('0::/docker/a')), undefined)
})

test('a process that is gone, or whose groups are not mounted here, has no sources', () => {
  const kernel = { processes: folder, groups: folder }
  assert.equal(cgroupSources(42, kernel), undefined)
  for (const line of ['7:memory:/docker/a', '0::/docker/a']) {
    write({ '42/cgroup': `${line}\n` })
    assert.equal(cgroupSources(42, kernel), undefined)
  }
})

test('buffers of sockets are limited to a quarter of the memory where version 1 has such a limit', () => {
  const path = 'memory/docker/a/memory.kmem.tcp.limit_in_bytes'
  write({ ...calmFirst, [path]: '9223372036854771712\n' })
  limitSocketBuffers(sourcesOf(...first), 1_001)
  assert.equal(readFileSync(join(folder, path), 'utf8').slice(0, 3), '251')
})

test('a group without a limit for buffers of sockets is left as it is', () => {
  write({ ...calmFirst, ...calmSecond })
  limitSocketBuffers(sourcesOf(...first), 1_000)
  limitSocketBuffers(sourcesOf('0::/docker/a'), 1_000)
  assert.throws(() => readFileSync(join(folder, 'memory/docker/a/memory.kmem.tcp.limit_in_bytes')), { code: 'ENOENT' })
})

test('a limit for buffers of sockets that cannot be written is an error, never left out', () => {
  write(calmFirst)
  mkdirSync(join(folder, 'memory/docker/a/memory.kmem.tcp.limit_in_bytes'))
  assert.throws(() => limitSocketBuffers(sourcesOf(...first), 1_000), { code: 'EISDIR' })
})
