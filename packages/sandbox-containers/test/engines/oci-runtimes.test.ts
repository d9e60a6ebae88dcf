import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import type { Runtime } from '@gantry/sandbox'
import { createDockerRuntime, createGvisorRuntime, createKataRuntime } from '@gantry/sandbox-containers'
import { disguises, dockerSocket, startsOf } from './engines.fixture.ts'

const signal = AbortSignal.timeout(300_000)
const kinds = { docker: createDockerRuntime, gvisor: createGvisorRuntime, kata: createKataRuntime }

async function withRuntime<T>(
  kind: keyof typeof kinds,
  runtime: string | undefined,
  use: (runtime: Runtime) => Promise<T>,
): Promise<T> {
  const made = kinds[kind]({ socket: dockerSocket(), ...(runtime === undefined ? {} : { runtime }) })
  try {
    return await use(made)
  } finally {
    await made.close()
  }
}

async function reasonOf(kind: keyof typeof kinds, runtime: string): Promise<string> {
  return withRuntime(kind, runtime, async (made) => {
    const probe = await made.probe(signal)
    return probe.available ? assert.fail('It is available.') : `${probe.reason} ${probe.remedy}`
  })
}

test('the versions of runc and runsc of the engine are known, not too old, and shown', async () => {
  const version = (kind: keyof typeof kinds, runtime?: string): Promise<string | undefined> =>
    withRuntime(kind, runtime, async (made) => (await made.probe(signal)).version)
  assert.match((await version('docker')) ?? '', /^Docker \S+, runc \d+\.\d+\.\d+/)
  assert.match((await version('gvisor')) ?? '', /^Docker \S+, runsc \S*20\d{6}\.\d+, runtime runsc, /)
  assert.match((await version('docker', disguises.unknownRunc)) ?? '', /^Docker \S+, OCI runtime of unknown version, /)
})

test('a runc and a runsc that say an old version are refused with the reason and what to install', async () => {
  const runc = await reasonOf('docker', disguises.oldRunc)
  assert.match(
    runc,
    /^The runc of Docker at unix:\S+, version 1\.1\.4, is too old: CVE-2024-21626\. Install runc 1\.1\.12/,
  )
  const runsc = await reasonOf('gvisor', disguises.oldRunsc)
  assert.match(runsc, /version release-20200115\.0, is too old: .* Install runsc 20221219\.0 or newer/)
  for (const disguise of [disguises.oldRunc, disguises.oldRunsc]) assert.deepEqual(startsOf(disguise), [], disguise)
})

test('runc behind the name of runsc is refused by what it calls itself, and by its kernel where that is untrue', async () => {
  assert.match(await reasonOf('gvisor', disguises.runcAsRunsc), /says that it is runc \S+, and runsc was asked for\./)
  assert.deepEqual(startsOf(disguises.runcAsRunsc), [])
  for (const kind of ['gvisor', 'kata'] as const) {
    const reason = await reasonOf(kind, disguises.runcClaimingRunsc)
    assert.match(
      reason,
      new RegExp(`"runsc-claimed" of Docker .* runs programs on the kernel of this machine, which ${kind} must not\\.`),
    )
  }
  // The control: for the kind that promises no kernel of its own the same program is what it is.
  await withRuntime('docker', disguises.runcClaimingRunsc, async (runtime) => {
    const boot = '/proc/sys/kernel/random/boot_id'
    const { stdout } = await runOnce(runtime, { program: { kind: 'script', script: `cat ${boot}` } })
    assert.equal(Buffer.from(stdout.bytes).toString(), readFileSync(boot, 'utf8'))
  })
})

test('the profile hardened refuses an OCI runtime whose version cannot be determined, and takes one that is known', async () => {
  const strict = { limits: attackLimits, network: 'none', strict: true } as const
  await withRuntime('docker', disguises.unknownRunc, async (runtime) => {
    assert.equal((await runtime.probe(signal)).available, true)
    assert.match(runtime.refuses(strict)?.reason ?? '', /version of the OCI runtime cannot be determined/)
    assert.equal(runtime.refuses({ limits: attackLimits, network: 'none' }), undefined)
  })
  await withRuntime('docker', undefined, async (runtime) => {
    assert.equal((await runtime.probe(signal)).available, true)
    assert.equal(runtime.refuses(strict), undefined)
  })
})
