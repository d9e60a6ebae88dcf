import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import { createProxmoxRuntime } from '@gantry/sandbox-proxmox'
import { createProxmoxApi } from '@gantry/sandbox-proxmox/internal/api/proxmox-api'
import { createAddressRange } from '@gantry/sandbox-proxmox/internal/containers/address-range'
import { AgentRefusal, agentPort, connectAgent } from '@gantry/sandbox-proxmox/internal/containers/guest-agent'
import { readListed } from '@gantry/sandbox-proxmox/internal/containers/leftovers'
import { nodeOptions } from './node.fixture.ts'

const signal = AbortSignal.timeout(120_000)
const options = nodeOptions()
const { node, vmids, network } = options
const agentKey = String(options.agentKey)
const api = createProxmoxApi({ ...options, token: async () => String(options.token) })
const addresses = createAddressRange(network.from, vmids)

/** The container of a sandbox that was opened between two looks. */
async function opened(runtime: ReturnType<typeof createProxmoxRuntime>) {
  const look = async () => readListed(await api.ask('GET', `/nodes/${node}/lxc`, signal))
  const before = new Set((await look()).map(({ vmid }) => vmid))
  const sandbox = await runtime.open({ limits: attackLimits, network: 'none' }, signal)
  const made = (await look()).find(({ vmid, isRunning }) => isRunning && !before.has(vmid))
  assert.ok(made !== undefined)
  return { sandbox, made, address: addresses.of(made.vmid).address }
}

test('a container takes one owner: a second connection with the right key is refused, and the first goes on', async () => {
  const runtime = createProxmoxRuntime(options)
  try {
    const { sandbox, made, address } = await opened(runtime)
    const late = AbortSignal.timeout(1_500)
    const again = connectAgent({ address, name: made.name, key: agentKey }, AbortSignal.any([signal, late]))
    await assert.rejects(again, (error) => error instanceof AgentRefusal || late.aborted)
    const { exit } = await sandbox.run({ program: { kind: 'script', script: 'exit 3' } }, signal)
    assert.deepEqual(exit, { code: 3 })
    await sandbox.dispose()
  } finally {
    await runtime.close()
  }
})

test('a program finds neither the key nor the network of the agent, and cannot end it', async () => {
  const runtime = createProxmoxRuntime(options)
  try {
    const code = `
import os, socket
found = []
def tries(name, work):
    try: work(); found.append(name)
    except OSError: pass
tries('key', lambda: open('/gantry/agent-key').read())
agents = [pid for pid in os.listdir('/proc') if pid.isdigit() and b'agent.mjs' in open(f'/proc/{pid}/cmdline', 'rb').read()]
for pid in agents:
    tries('memory', lambda: open(f'/proc/{pid}/mem', 'rb'))
    tries('environment', lambda: open(f'/proc/{pid}/environ', 'rb').read())
    tries('descriptors', lambda: os.listdir(f'/proc/{pid}/fd'))
    tries('kill', lambda: os.kill(int(pid), 9))
tries('interface', lambda: socket.create_connection((${JSON.stringify(network.from.split('/')[0])}, ${agentPort}), 1))
return [len(agents), found, [line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]]]`
    const job = { program: { kind: 'code', language: 'python', code } } as const
    assert.deepEqual((await runOnce(runtime, job)).value, [1, [], ['lo']])
  } finally {
    await runtime.close()
  }
})

test('bytes that are no TLS, and a header of another form, give nothing', async () => {
  const runtime = createProxmoxRuntime(options)
  try {
    const { sandbox, address } = await opened(runtime)
    const raw = connect(agentPort, address)
    raw.on('error', () => undefined)
    const closed = new Promise<string>((resolve) => {
      let said = ''
      raw.on('data', (bytes) => {
        said += bytes.toString('latin1')
      })
      raw.on('close', () => resolve(said))
    })
    raw.write('1000 1048576 1048576\n')
    assert.doesNotMatch(await closed, /dev\.gantry/)
    await sandbox.dispose()
  } finally {
    await runtime.close()
    api.close()
  }
})
