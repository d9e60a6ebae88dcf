import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { asRoot, isRoot, outsider, real } from './bubblewrap.fixture.ts'
import { egressEnvironment, egressInside } from './egress-inside.ts'
import { inside, limits, plannerFor } from './planner.fixture.ts'
import { filterHash } from './seccomp/filters.ts'
import { claimsFolder } from './uids.ts'

const base = mkdtempSync(join(tmpdir(), 'gantry-planner-'))
chmodSync(base, 0o755)
after(() => rmSync(base, { recursive: true }))
const spec = { limits, network: 'none' } as const

test('a plan holds everything the launcher needs, and strict sandboxes get another seccomp filter', real, async () => {
  const planner = await plannerFor(join(base, 'plans'))
  const [one, two] = [planner.plan('one', spec), planner.plan('two', { ...spec, strict: true })]
  const arch = process.arch === 'arm64' ? 'arm64' : 'x64'
  assert.match(
    planner.version,
    new RegExp(`^bubblewrap \\d+\\.\\d+.*, filter ${filterHash(arch, 'base').slice(0, 12)}$`),
  )
  assert.deepEqual(planner.swept.stuck, [])
  assert.equal(one.plan.argv.at(-1), 'init')
  assert.equal(one.plan.argv.at(-2), '/gantry/init')
  assert.notEqual(one.plan.seccompFile, two.plan.seccompFile)
  assert.deepEqual(one.plan.folders, [])
  assert.equal(one.plan.rlimits.core, 1)
  assert.equal(one.plan.rlimits.fsize, limits.diskBytes)
  for (const limit of Object.keys(limits)) assert.ok(one.enforced[limit as keyof typeof limits], limit)
  for (const id of ['', '../one', 'a/b', 'x'.repeat(65)]) assert.throws(() => planner.plan(id, spec), /plain name/)
  await planner.close()
})

test(
  'as root, each sandbox has its own uid and control groups, and strict sandboxes are accepted',
  asRoot,
  async () => {
    const planner = await plannerFor(join(base, 'groups'))
    const [one, two] = [planner.plan('one', spec), planner.plan('two', spec)]
    assert.ok(one.plan.uid !== undefined && two.plan.uid !== undefined && one.plan.uid !== two.plan.uid)
    assert.equal(one.plan.gid, one.plan.uid)
    assert.ok(one.plan.cgroups.folders.length > 0)
    assert.ok(one.plan.cgroups.folders.every((folder) => folder.endsWith('/one')))
    assert.ok((one.plan.rlimits.nproc ?? 0) > limits.pids + 2, 'the control group counts first')
    assert.equal(one.plan.rlimits.cpu, undefined)
    assert.equal(planner.refuses({ ...spec, strict: true }), undefined)
    one.release()
    two.release()
    await planner.close()
  },
)

test('a strict sandbox with network access is refused', real, async () => {
  const planner = await plannerFor(join(base, 'network'))
  const network = { allow: ['https://example.com'] }
  assert.match(planner.refuses({ limits, network, strict: true })?.reason ?? '', /reaches no network/)
  assert.equal(planner.refuses({ limits, network }), undefined)
  await planner.close()
})

test('the egress folder is private to one sandbox and mounted read-only inside it', real, async () => {
  const planner = await plannerFor(join(base, 'egress'))
  const planned = planner.plan('one', { limits, network: { allow: ['https://example.com'] } })
  const { egressFolder = '' } = planned
  assert.deepEqual(planned.plan.folders, [egressFolder])
  const stats = statSync(egressFolder)
  assert.equal(stats.mode & 0o777, 0o700)
  assert.equal(stats.uid, planned.plan.uid ?? process.getuid?.())
  const { stdout, stderr } = inside(
    planned,
    '/bin/sh',
    '-c',
    'ls -d /gantry/egress; > /gantry/egress/file || echo refused',
  )
  assert.equal(stdout, '/gantry/egress\nrefused\n', stderr)
  assert.equal(egressInside.socket, '/gantry/egress/proxy.sock')
  assert.equal(egressEnvironment(['https://a.example']).https_proxy, 'http://127.0.0.1:3128')
  assert.equal(egressEnvironment([]).NODE_USE_ENV_PROXY, '1')
  await planner.close()
})

test('closing the planner removes its folders, uid claims and control groups', real, async () => {
  const root = join(base, 'closing')
  const planner = await plannerFor(root)
  const { plan } = planner.plan('one', { limits, network: { allow: [] } })
  await planner.close()
  assert.deepEqual(
    readdirSync(root).filter((name) => name !== 'uids'),
    [],
  )
  if (isRoot) assert.deepEqual(readdirSync(claimsFolder(root)), [])
  for (const parent of plan.cgroups.parents ?? []) assert.ok(!existsSync(parent), parent)
})

test('creating a planner with invalid options fails with the reason and leaves no folders', real, async () => {
  const root = join(base, 'wrong')
  const absent = '/absent/folder'
  await assert.rejects(plannerFor(root, { readOnlyFolders: [absent] }), { code: 'CONFIG_INVALID' })
  await assert.rejects(plannerFor(root, { bubblewrap: absent }), { code: 'RUNTIME_UNAVAILABLE' })
  for (const folder of ['relative', '/', '/etc/ssh', '/proc/1', '/work/x', '/data/../usr', '/usr/data']) {
    await assert.rejects(plannerFor(root, { readOnlyFolders: [folder] }), /not a plain absolute path/)
  }
  assert.deepEqual(
    readdirSync(root).filter((name) => name !== 'uids'),
    [],
  )
})

test('an unprivileged user gets sandboxes with fewer kernel-enforced limits, and no strict ones', asRoot, async (t) => {
  const root = join(base, 'ordinary')
  mkdirSync(root)
  chmodSync(root, 0o1777)
  const script = join(import.meta.dirname, 'planner.fixture.ts')
  const { stdout, stderr, status } = spawnSync(process.execPath, [script, join(root, 'own')], {
    uid: outsider,
    gid: outsider,
    cwd: '/',
    encoding: 'utf8',
    timeout: 20_000,
    env: { PATH: '/usr/bin:/bin', HOME: '/' },
  })
  if (/EACCES|permission denied/i.test(stderr)) return t.skip('this checkout is closed to other users')
  assert.equal(status, 0, stderr)
  const { refusal, ...found } = JSON.parse(stdout)
  assert.equal(found.stdout, '1000 1\n', found.stderr)
  assert.equal(found.uid, undefined)
  assert.deepEqual(found.folders, [])
  assert.equal(found.rlimits.nproc, undefined)
  assert.equal(found.rlimits.cpu, 11)
  assert.equal(found.enforced.memoryBytes, 'watch of the init')
  assert.match(refusal.reason, /does not enforce cpuMs, memoryBytes, pids here/)
  assert.match(refusal.remedy, /Delegate=yes/)
})
