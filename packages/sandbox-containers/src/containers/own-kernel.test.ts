import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { PlannedSandbox } from '@gantry/sandbox/internal/drivers/launcher-runtime'
import type { Launched, LaunchJob } from '@gantry/sandbox/internal/launcher/launcher'
import { type EngineKernel, kernelIn, tryOwnKernel } from './own-kernel.ts'

const boots = ['0b5ee5f8-0d0f-4f0e-9d25-6d6b0c4b1a11', '7d1f6a52-93a5-4f70-b6a4-3f4c20a3e822'] as const
const machine = { release: '6.1.0-18-amd64', boot: boots[0] }
const remote = { release: '6.1.0-18-amd64' }
const versionOf = (release: string): string => `version Linux version ${release} (builder) #1 SMP`
const gvisor = versionOf('4.4.0')

for (const [what, printed, kernel, expected] of [
  ["the machine's boot id", `boot ${boots[0]}\n${versionOf(machine.release)}\n`, machine, 'host'],
  ["the machine's boot id and another release", `boot ${boots[0]}\n${gvisor}\n`, machine, 'host'],
  [
    'another boot id and the same release, as Kata may have',
    `boot ${boots[1]}\n${versionOf(machine.release)}\n`,
    machine,
    'own',
  ],
  ['no boot id and another release, as gVisor has', `${gvisor}\n`, machine, 'own'],
  ["no boot id and the machine's release", `${versionOf(machine.release)}\n`, machine, 'host'],
  ['nothing', '', machine, 'unproven'],
  ['a boot id and no release', `boot ${boots[1]}\n`, machine, 'unproven'],
  ['another text', 'sh: not found\n', machine, 'unproven'],
  ["another release than that of another machine's engine", `boot ${boots[1]}\n${gvisor}\n`, remote, 'own'],
  ["the release of another machine's engine", `boot ${boots[1]}\n${versionOf(remote.release)}\n`, remote, 'host'],
  ['a release, to an engine that does not say its own', `boot ${boots[1]}\n${gvisor}\n`, {}, 'unproven'],
] as const satisfies readonly (readonly [string, string, EngineKernel, string])[]) {
  test(`a program that prints ${what} runs on a kernel that is ${expected}`, () => {
    assert.equal(kernelIn(printed, kernel), expected)
  })
}

/** A sandbox that prints this, whatever it runs; what it ran is noted. */
function printing(text: string, folder: string | undefined, jobs: LaunchJob[]): PlannedSandbox {
  const launched = {
    relay: () => undefined,
    async run(job: LaunchJob) {
      jobs.push(job)
      return { stdout: { bytes: Buffer.from(text) } }
    },
    dispose: async () => undefined,
  }
  return {
    enforced: {},
    counted: true,
    inside: { env: {}, workspace: '/work', rlimits: {} } as unknown as PlannedSandbox['inside'],
    ...(folder === undefined ? {} : { egressFolder: folder }),
    launch: async () => launched as unknown as Launched,
    release: () => undefined,
  }
}

test('an image whose labels name no interpreter must prove its kernel all the same', async () => {
  const jobs: LaunchJob[] = []
  const plan = (): PlannedSandbox => printing('', undefined, jobs)
  const trial = await tryOwnKernel({ plan, machine, hasSockets: false, has: () => false }, AbortSignal.timeout(5_000))
  assert.deepEqual(trial, { kernel: 'unproven', reachesSockets: false })
  assert.equal(jobs[0]?.steps?.[0].argv[0], '/bin/sh')
})

test('a trial without sockets plans no network, and runs no program that connects', async () => {
  const jobs: LaunchJob[] = []
  const networks: unknown[] = []
  const plan = (_: string, { network }: { readonly network: unknown }): PlannedSandbox => {
    networks.push(network)
    return printing(gvisor.concat('\n'), undefined, jobs)
  }
  const trial = await tryOwnKernel({ plan, machine, hasSockets: false, has: () => true }, AbortSignal.timeout(5_000))
  assert.deepEqual([trial.kernel, networks, jobs[0]?.steps?.length], ['own', ['none'], 1])
})

test('a trial with sockets has the socket of a proxy, and runs a program of the image that connects', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-kernel-'))
  try {
    const jobs: LaunchJob[] = []
    const plan = (): PlannedSandbox => printing(gvisor.concat('\n'), folder, jobs)
    const has = (path: string): boolean => path === '/usr/bin/python3'
    const trial = await tryOwnKernel({ plan, machine, hasSockets: true, has }, AbortSignal.timeout(5_000))
    assert.equal(trial.kernel, 'own')
    assert.deepEqual(
      jobs[0]?.steps?.map(({ argv }) => argv[0]),
      ['/bin/sh', '/usr/bin/python3'],
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
})
