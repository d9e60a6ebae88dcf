import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { SandboxLimits } from '@gantry/contract'
import { ToolError } from '@gantry/contract'
import type { Outcome, Runtime, SandboxSpec } from '@gantry/sandbox'
import { createFirecrackerRuntime } from '@gantry/sandbox-microvm'
import { type Contract, createContract, missingContract } from './contract.fixture.ts'

const limits: SandboxLimits = {
  wallMs: 30_000,
  cpuMs: 30_000,
  memoryBytes: 128 * 2 ** 20,
  pids: 48,
  diskBytes: 16 * 2 ** 20,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}
const signal = AbortSignal.timeout(120_000)
const contracts: Contract[] = []
const runtimes: Runtime[] = []
after(async () => {
  for (const runtime of runtimes) await runtime.close()
  for (const contract of contracts) contract.remove()
})
const unlessMissing = missingContract === undefined ? {} : { skip: missingContract }

function contractOf(options: { readonly snapshots?: boolean } = {}): { contract: Contract; runtime: Runtime } {
  const contract = createContract()
  const runtime = createFirecrackerRuntime({ ...contract.options, ...options })
  contracts.push(contract)
  runtimes.push(runtime)
  return { contract, runtime }
}

async function run(runtime: Runtime, code: string, spec: Partial<SandboxSpec> = {}): Promise<Outcome> {
  const sandbox = await runtime.open({ limits, network: 'none', language: 'python', ...spec }, signal)
  try {
    return await sandbox.run({ program: { kind: 'code', language: 'python', code } }, signal)
  } finally {
    await sandbox.dispose()
  }
}

/** Stand-ins for Firecracker of one contract. */
function machines({ options }: Contract): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => commandOf(pid).includes(`${String(options.program).replace(/\w+$/, '')}contract/firecracker.ts\0`))
    .map(Number)
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}

async function untilGone(contract: Contract): Promise<void> {
  while (machines(contract).length > 0) {
    signal.throwIfAborted()
    await pause(20, undefined, { signal })
  }
}

/** Everything that is kept for machines, of all owners. */
function folders({ root }: Contract): readonly string[] {
  return readdirSync(root, { recursive: true })
    .map(String)
    .filter((path) => path !== 'uids')
}

test(
  'machines that boot and machines that begin as snapshots run programs, and leave no process and no folder',
  unlessMissing,
  async () => {
    for (const snapshots of [false, true]) {
      const { contract, runtime } = contractOf({ snapshots })
      const { available, version } = await runtime.probe(signal)
      assert.equal(available, true)
      assert.match(version ?? '', /^Firecracker 1\.10\.1, /)
      for (const answer of [42, 43]) assert.equal((await run(runtime, `return ${answer}`)).value, answer)
      await untilGone(contract)
      assert.deepEqual(
        folders(contract).filter((path) => /\/m-/.test(path)),
        [],
      )
      await runtime.close()
      assert.deepEqual(folders(contract), [])
    }
  },
)

test(
  'a machine runs as a uid of its own, in a network namespace without an interface of the host',
  unlessMissing,
  async () => {
    const { contract, runtime } = contractOf({ snapshots: false })
    const sandbox = await runtime.open({ limits, network: 'none' }, signal)
    const [pid] = machines(contract)
    assert.ok(pid !== undefined)
    assert.notEqual(statSync(`/proc/${pid}`).uid, 0)
    const links = readFileSync(`/proc/${pid}/net/dev`, 'latin1')
      .split('\n')
      .slice(2)
      .map((line) => line.split(':')[0]?.trim())
      .filter(Boolean)
    assert.deepEqual(links, ['lo'])
    assert.match(readFileSync(`/proc/${pid}/status`, 'latin1'), /^CapEff:\t0+$/m)
    await sandbox.dispose()
  },
)

test('the files of a snapshot are root’s and cannot be written by the user of a machine', unlessMissing, async () => {
  const { contract, runtime } = contractOf()
  await run(runtime, 'return 1')
  const files = folders(contract).filter((path) => /\/s-\w+\/(?:state|memory)$/.test(path))
  assert.ok(files.length >= 2)
  for (const path of files) {
    const { uid, mode } = statSync(join(contract.root, path))
    assert.deepEqual([uid, mode & 0o777], [0, 0o444], path)
  }
})

test('a session keeps its state over runs of a restored machine', unlessMissing, async () => {
  const { runtime } = contractOf()
  const sandbox = await runtime.open({ limits, network: 'none', session: true, language: 'python' }, signal)
  try {
    const python = (code: string) => ({ program: { kind: 'code', language: 'python', code } }) as const
    await sandbox.run(python('kept = 41'), signal)
    assert.equal((await sandbox.run(python('return kept + 1'), signal)).value, 42)
  } finally {
    await sandbox.dispose()
  }
})

test(
  'a Firecracker that refuses, hangs or dies at the start is refused with reason and remedy, and nothing is left',
  unlessMissing,
  async () => {
    const message = 'Error creating KVM object: No such device (os error 19)'
    const cases = [
      [{ 'PUT /actions': { do: 'refuse', message } }, /Firecracker refused PUT \/actions: Error creating KVM object/],
      [{ 'PUT /vsock': { do: 'die' } }, /does not start here within 10000 ms/],
      [{ 'PUT /boot-source': { do: 'hang' } }, /does not start here within 10000 ms/],
    ] as const
    for (const [faults, reason] of cases) {
      const { contract, runtime } = contractOf()
      contract.fail(faults)
      await assert.rejects(run(runtime, 'return 1'), (error) => {
        assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE')
        assert.match(error.message, reason)
        assert.match(error.message, /Use a machine whose KVM works, or `runtimes\.qemu`/)
        return true
      })
      await untilGone(contract)
      await runtime.close()
      assert.deepEqual(folders(contract), [])
    }
  },
)

test(
  'a snapshot that cannot be taken or loaded ends a start with the fault, and the next start tries again',
  unlessMissing,
  async () => {
    const { contract, runtime } = contractOf()
    assert.equal((await run(runtime, 'return 1')).value, 1)
    const faults = [
      ['PUT /snapshot/load', 'Load snapshot error: CRC64 validation failed', {}],
      ['PUT /snapshot/create', 'Cannot save the microVM state: No space left', { session: true }],
    ] as const
    for (const [request, message, spec] of faults) {
      contract.fail({ [request]: { do: 'refuse', message } })
      await assert.rejects(run(runtime, 'return 1', spec), (error) => {
        assert.ok(ToolError.is(error) && error.code === 'SANDBOX_INIT_FAILED')
        assert.ok(error.message.includes(`Firecracker refused ${request}: ${message}`), error.message)
        return true
      })
      contract.fail({})
      assert.equal((await run(runtime, 'return 2', spec)).value, 2)
    }
    await untilGone(contract)
  },
)

/** Runs a program that stays, and does something to its machine as soon as it runs. */
async function whileRunning(
  contract: Contract,
  runtime: Runtime,
  wallMs: number,
  name: NodeJS.Signals,
): Promise<Outcome> {
  const sandbox = await runtime.open({ limits: { ...limits, wallMs }, network: 'none' }, signal)
  try {
    const onOutput = (): void => {
      for (const pid of machines(contract)) process.kill(pid, name)
    }
    return await sandbox.run({ program: { kind: 'script', script: 'echo runs; sleep 600' }, onOutput }, signal)
  } finally {
    await sandbox.dispose()
  }
}

test(
  'a program whose machine is killed ends with BACKEND_FAILED, and one whose machine is stopped by its wall limit',
  unlessMissing,
  async () => {
    const { contract, runtime } = contractOf()
    const killed = whileRunning(contract, runtime, limits.wallMs, 'SIGKILL')
    await assert.rejects(killed, (error) => ToolError.is(error) && error.code === 'BACKEND_FAILED')
    await untilGone(contract)
    const { hit } = await whileRunning(contract, runtime, 1_000, 'SIGSTOP')
    assert.equal(hit, 'wallMs')
    await untilGone(contract)
    assert.equal((await run(runtime, 'return 1')).value, 1)
  },
)

test('an owner that is killed leaves no machine and no folder of one', unlessMissing, async () => {
  const { contract, runtime } = contractOf()
  await run(runtime, 'return 1')
  const { program, jailer, store } = contract.options
  const file = join(import.meta.dirname, 'contract-owner.fixture.ts')
  const args = [file, String(program), String(jailer), String(store), contract.root]
  const owner = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(owner, 'exit')
  try {
    let hasRun = false
    for await (const line of createInterface({ input: owner.stdout })) {
      hasRun = line === 'runs'
      break
    }
    assert.ok(hasRun, 'The owner ended by itself.')
    assert.ok(machines(contract).length > 0, 'A running machine is not seen.')
  } finally {
    owner.kill('SIGKILL')
    await ended
  }
  await untilGone(contract)
  await runtime.close()
  const next = createFirecrackerRuntime(contract.options)
  runtimes.push(next)
  await run(next, 'return 1')
  await next.close()
  assert.deepEqual(folders(contract), [])
})

test(
  'a machine is refused a network, and programs that are not there or of two releases are refused',
  unlessMissing,
  async () => {
    const { contract, runtime } = contractOf()
    await runtime.probe(signal)
    const refusal = runtime.refuses({ limits, network: { allow: ['https://example.com'] }, language: 'python' })
    assert.match(refusal?.reason ?? '', /no network device|No egress/)
    const cases = [
      [{ program: '/nowhere/firecracker' }, /firecracker is not installed.*Unpack a release of Firecracker/],
      [{ jailer: '/usr/bin/true' }, /tells no version/],
      [{ image: 'full-of-nothing' }, /There is no image "full-of-nothing".*runtimes\.firecracker\.image/],
    ] as const
    for (const [options, message] of cases) {
      const one = createFirecrackerRuntime({ ...contract.options, ...options })
      runtimes.push(one)
      const probe = await one.probe(signal)
      assert.equal(probe.available, false)
      assert.match(`${probe.reason} ${probe.remedy}`, message)
    }
  },
)
