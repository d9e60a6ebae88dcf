import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { type SandboxLimits, ToolError } from '@gantry/contract'
import type { Runtime } from '@gantry/sandbox'
import { createProxmoxRuntime, type ProxmoxOptions } from '@gantry/sandbox-proxmox'
import { type ProxmoxState, startProxmox } from '../../../../scripts/engines/proxmox.ts'

const signal = AbortSignal.timeout(240_000)
/** More in a long campaign. */
const calls = Number(process.env.GANTRY_PROXMOX_CALLS ?? 50)
const lanes = 8
const limits: SandboxLimits = {
  wallMs: 60_000,
  cpuMs: 10_000,
  memoryBytes: 33_554_432,
  pids: 16,
  diskBytes: 1_048_576,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}
const spec = { limits, network: 'none' } as const
const program = (script: string) => ({ program: { kind: 'script', script } }) as const

const node = await startProxmox('standard')
after(() => node.stop())
const { template } = node.target

async function withRuntime<T>(
  use: (runtime: Runtime) => Promise<T>,
  options: Partial<ProxmoxOptions> = {},
): Promise<T> {
  const runtime = createProxmoxRuntime({ ...node.target, ...options })
  try {
    return await use(runtime)
  } finally {
    await runtime.close()
  }
}

const others = ({ containers }: ProxmoxState) => containers.filter(({ vmid }) => vmid !== template)

async function untilContainers(isDone: (all: ProxmoxState['containers']) => boolean): Promise<void> {
  while (!isDone(others(await node.control('state')))) {
    signal.throwIfAborted()
    await pause(50)
  }
}

const untilNone = (): Promise<void> => untilContainers((all) => all.length === 0)

/** One call as a pool makes it; how it ended: its exit code, the limit that was hit, or the code of its error. */
async function callOnce(runtime: Runtime, n: number, onStart: () => void = () => undefined): Promise<string> {
  try {
    const sandbox = await runtime.open(spec, signal)
    try {
      const job = program(`echo ${n}; sleep 0.3; exit ${n}`)
      const { exit, hit } = await sandbox.run({ ...job, onOutput: onStart }, signal)
      return hit ?? JSON.stringify(exit)
    } finally {
      await sandbox.dispose()
    }
  } catch (error) {
    assert.ok(ToolError.is(error), String(error))
    return error.code
  }
}

/** How a runtime refuses to open a sandbox. */
async function refusal(options: Partial<ProxmoxOptions>): Promise<ToolError> {
  return withRuntime(async (runtime) => {
    try {
      await (await runtime.open(spec, signal)).dispose()
    } catch (error) {
      assert.ok(ToolError.is(error), String(error))
      return error
    }
    assert.fail('a sandbox was opened')
  }, options)
}

test('the API is killed and restarted while 50 calls run: 50 outcomes, and no container is left', async () => {
  await withRuntime(async (runtime) => {
    const ends: string[] = []
    let [next, running] = [0, 0]
    const started = Promise.withResolvers<void>()
    const lane = async (): Promise<void> => {
      for (let n = next++; n < calls; n = next++) {
        ends[n] = await callOnce(runtime, n, () => {
          running += 1
          if (running === lanes) started.resolve()
        })
      }
    }
    const all = Promise.all(Array.from({ length: lanes }, lane))
    await started.promise
    node.kill()
    await pause(300)
    await node.restart()
    await all
    assert.equal(Object.keys(ends).length, calls)
    const known = ['BACKEND_FAILED', 'RUNTIME_UNAVAILABLE', 'SANDBOX_INIT_FAILED']
    assert.deepEqual(
      ends.filter((end, n) => end !== `{"code":${n}}` && !known.includes(end)),
      [],
    )
    assert.equal(await callOnce(runtime, 7), '{"code":7}')
  })
  await untilNone()
})

test('a task that fails ends the start with what Proxmox says, and leaves no container', async () => {
  await withRuntime(async (runtime) => {
    assert.equal(await callOnce(runtime, 1), '{"code":1}')
    for (const where of ['vzclone', 'vzstart']) {
      await node.fault({ kind: 'task-fails', where, count: 1 })
      await assert.rejects(runtime.open(spec, signal), (error) => {
        assert.ok(ToolError.is(error))
        assert.equal(error.code, 'RUNTIME_UNAVAILABLE')
        assert.match(
          error.message,
          /could not (?:clone|start) the .*: command failed: exit code 1\. Correct that on the node/,
        )
        return true
      })
    }
    await node.fault({ kind: 'task-fails', where: 'vzdestroy', count: 1 })
    assert.equal(await callOnce(runtime, 2), '{"code":2}')
  })
  await untilNone()
})

test('a locked template, a locked container and a taken id are met by another try', async () => {
  await withRuntime(async (runtime) => {
    assert.equal(await callOnce(runtime, 1), '{"code":1}')
    await node.control('state')
    await node.fault({ kind: 'locked', where: `POST /lxc/${template}/clone`, count: 3 })
    await node.fault({ kind: 'id-taken', where: '', count: 2 })
    await node.fault({ kind: 'locked', where: 'PUT /lxc/', count: 2 })
    assert.equal(await callOnce(runtime, 2), '{"code":2}')
    const { requests } = await node.control('state')
    assert.equal(requests.filter((one) => one.endsWith('/clone')).length, 6)
  })
})

test('two owners with the same range start eight sandboxes each at once, and each gets ids of its own', async () => {
  await withRuntime((one) =>
    withRuntime(async (other) => {
      const ends = await Promise.all(Array.from({ length: 16 }, (_, n) => callOnce(n % 2 === 0 ? one : other, n)))
      assert.deepEqual(
        ends,
        ends.map((_, n) => `{"code":${n}}`),
      )
    }),
  )
  await untilNone()
})

test('a container that is stopped on the node ends the run of its program, and is removed', async () => {
  await withRuntime(async (runtime) => {
    const sandbox = await runtime.open(spec, signal)
    const [made] = others(await node.control('state'))
    const started = Promise.withResolvers<void>()
    const run = sandbox.run({ ...program('echo runs; sleep 600'), onOutput: () => started.resolve() }, signal)
    await started.promise
    await node.control('stop', { vmid: made?.vmid })
    await assert.rejects(run, (error) => ToolError.is(error) && error.code === 'BACKEND_FAILED')
    await sandbox.ended
    await sandbox.dispose()
  })
  await untilNone()
})

test('an owner is killed: its containers end by themselves, and the next owner removes them and nothing else', async () => {
  const config = { hostname: 'gantry-of-another', unprivileged: 1, description: 'mine' }
  await node.control('container', { vmid: node.target.vmids.first, config })
  const owner = spawn(process.execPath, [join(import.meta.dirname, 'owner.fixture.ts'), JSON.stringify(node.target)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(createInterface({ input: owner.stdout }), 'line')
  assert.equal(line, 'running')
  const count = async (status: string): Promise<number> =>
    others(await node.control('state')).filter((one) => one.status === status).length
  assert.equal(await count('running'), 2)
  owner.kill('SIGKILL')
  await untilContainers((all) => all.every(({ status }) => status === 'stopped'))
  await withRuntime((runtime) => callOnce(runtime, 0))
  await untilContainers((all) => all.length === 1)
  assert.deepEqual(
    others(await node.control('state')).map(({ name }) => name),
    ['gantry-of-another'],
  )
})

test('a wrong token, certificate or key, a missing privilege and an absent template are refused with their remedies', async () => {
  const token = await refusal({ token: 'not-the-secret' })
  assert.match(token.message, /401 invalid token value!.* Compare tokenId and token of runtimes\.proxmox/)
  assert.doesNotMatch(JSON.stringify([token, token.message]), /not-the-secret/)
  await node.control('state')
  const certificate = await refusal({ fingerprint: 'ab'.repeat(32) })
  assert.match(certificate.message, /another certificate than runtimes\.proxmox\.fingerprint.* nothing was sent/)
  const { fingerprint: _, ...unpinned } = node.target
  await assert.rejects(
    createProxmoxRuntime(unpinned).open(spec, signal),
    /cannot be verified \(.*\)\. Set runtimes\.proxmox\.fingerprint/,
  )
  assert.deepEqual(
    (await node.control('state')).requests,
    [],
    'no request was sent over a connection that is not trusted',
  )
  const authority = createProxmoxRuntime({ ...unpinned, ca: node.ca })
  assert.equal(await callOnce(authority, 3), '{"code":3}')
  await authority.close()
  assert.match(
    (await refusal({ agentKey: 'w'.repeat(64) })).message,
    /does not accept the key.* Compare runtimes\.proxmox\.agentKey/,
  )
  await node.fault({ kind: 'denied', where: `POST /lxc/${template}/clone`, count: 1 })
  assert.match(
    (await refusal({})).message,
    /403 Permission check failed \(\/vms\/\d+, VM\.Clone\)\. Give the token the privileges/,
  )
  assert.match((await refusal({ template: 9_999 })).message, /does not exist.* Compare node and template/)
  await untilContainers((all) => all.length === 1)
})

test('a template that is privileged, has features, folders or devices of the node is refused', async () => {
  const wrong = [
    [{ unprivileged: 0 }, /is privileged/],
    [{ features: 'nesting=1' }, /has features \(nesting=1\)/],
    [{ mp0: '/srv,mp=/srv' }, /has the mount point mp0/],
    [{ dev0: '/dev/kvm' }, /passes the device dev0/],
    [{ hookscript: 'local:snippets/x' }, /runs a script on the node/],
    [{ lxc: [['lxc.cap.drop', '']] }, /has raw LXC settings/],
    [{ template: 0 }, /is no template/],
  ] as const
  const { config } = (await node.control('template-config')) as ProxmoxState & { readonly config: object }
  for (const [part, message] of wrong) {
    await node.control('template', { ...config, ...part })
    assert.match((await refusal({})).message, message)
  }
  await node.control('template', config)
})
