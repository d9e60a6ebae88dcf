import { createHash, randomBytes, randomInt } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { stateOf } from '@gantry/sandbox/internal/process/sandbox-root'
import {
  createRemover,
  type RemoveOnce,
  type Remover,
} from '@gantry/sandbox-containers/internal/engines/container-removal'
import type {
  Container,
  ContainerEnd,
  ContainerEngine,
  ContainerImage,
  ContainerSpec,
} from '@gantry/sandbox-containers/internal/engines/engine'
import { apiError, problemOf } from '../api/api-error.ts'
import type { ProxmoxApi } from '../api/proxmox-api.ts'
import type { AddressRange } from './address-range.ts'
import { configOf, parametersOf } from './container-config.ts'
import { AgentRefusal, connectAgent, type GuestAgent } from './guest-agent.ts'
import { describe, isLeft, namePrefix, readListed, readOwnership } from './leftovers.ts'
import { checkTemplate } from './template-check.ts'
import { createTurns, type Turns } from './turns.ts'

export interface ProxmoxEngineOptions {
  readonly api: ProxmoxApi
  readonly node: string
  readonly template: number
  readonly owner: string
  readonly bridge: string
  readonly addresses: AddressRange
  /** The pool that containers are put into, on which the token may have its privileges. */
  readonly pool?: string
  /** The key in the template. */
  readonly agentKey: () => Promise<string>
}

/** How often another id is tried when one is taken by someone else meanwhile. */
const mostIds = 20
/** For how long a lock of the template by another clone is waited for. */
const lockedMs = 60_000
const [firstPauseMs, longestPauseMs] = [50, 2_000]
const killedMs = 10_000
/** From the end of the start task to the agent of the container. */
const agentMs = 30_000
const looked = { memoryBytes: 33_554_432, diskBytes: 1_048_576, processors: 1, pids: 8, openFiles: 64 }

/** Containers of a Proxmox node as those of an engine. Rejects with RUNTIME_UNAVAILABLE when it cannot be used. */
export async function openProxmox(options: ProxmoxEngineOptions, signal: AbortSignal): Promise<ContainerEngine> {
  const { api, node, template, owner, addresses } = options
  const version = await api.ask('GET', '/version', signal)
  const release = isObject(version) ? String(version.version).slice(0, 32) : ''
  const closing = new AbortController()
  const outdated = Promise.withResolvers<void>()
  const remover = createRemover(containerRemoval(api, node))
  const connection: Connection = { ...options, remover, inTurn: createTurns(), onAbsentTemplate: outdated.resolve }
  const readTemplate = async (given: AbortSignal) =>
    checkTemplate(template, await api.ask('GET', `/nodes/${node}/lxc/${template}/config`, given))
  await readTemplate(signal)
  const sweeping = removeLeft(connection, closing.signal).catch(() => undefined)
  return {
    version: `Proxmox VE ${release} at ${api.host}, template ${template} of ${node}`,
    // Its control groups are those of another machine.
    isLocal: false,
    cgroupVersion: 1,
    outdated: outdated.promise,
    image: async (_, given) => inspectTemplate(connection, (await readTemplate(given)).digest, given),
    start: (spec, given) => startContainer(connection, spec, given),
    sweep: async () => [],
    async close() {
      closing.abort()
      await sweeping
      await remover.close()
      api.close()
    },
  }

  async function inspectTemplate(to: Connection, config: string, given: AbortSignal): Promise<ContainerImage> {
    const spec: ContainerSpec = {
      id: randomBytes(9).toString('base64url'),
      owner,
      image: '',
      filter: 'base',
      command: ['/gantry/init'],
      uid: 65_533,
      hasOwnKernel: false,
      ...looked,
    }
    const made = await makeContainer(to, spec, given)
    try {
      const { contents } = await agentOf(to, made, given)
      const digest = createHash('sha256')
        .update(JSON.stringify([template, addresses.first, config, contents]))
        .digest('hex')
      return { digest: `sha256:${digest}`, labels: contents }
    } finally {
      await remover.remove(idOf(made))
    }
  }
}

interface Connection extends ProxmoxEngineOptions {
  readonly remover: Remover
  /** Proxmox locks a template while one clone of it is made. */
  readonly inTurn: Turns
  /** The template was there at the start, and is not any more. */
  readonly onAbsentTemplate: () => void
}

/** A container by its number and its name; the number alone may be another container's by the time it is removed. */
interface Made {
  readonly vmid: number
  readonly name: string
}

const idOf = ({ vmid, name }: Made): string => `${vmid}/${name}`

async function startContainer(to: Connection, spec: ContainerSpec, signal: AbortSignal): Promise<Container> {
  const made = await makeContainer(to, spec, signal)
  try {
    const agent = await agentOf(to, made, signal)
    agent.enter(parametersOf(spec))
    return containerOf(to, made, agent)
  } catch (error) {
    to.remover.expect(idOf(made))
    throw error
  }
}

/** Clones the template, configures and starts the clone. What was made is removed when a step fails. */
async function makeContainer(to: Connection, spec: ContainerSpec, signal: AbortSignal): Promise<Made> {
  const { api, node, remover } = to
  const made = await clone(to, spec, signal)
  const path = `/nodes/${node}/lxc/${made.vmid}`
  try {
    await unlessLocked(() => api.ask('PUT', `${path}/config`, signal, configOf(spec, made.vmid, to)), signal)
    await unlessLocked(
      () => api.perform('POST', `${path}/status/start`, `start the container ${made.vmid}`, signal),
      signal,
    )
    return made
  } catch (error) {
    remover.expect(idOf(made))
    throw error
  }
}

/**
 * Makes a linked clone under a free id. Which one is free is known only when Proxmox has accepted it: others may take ids
 * of the range too, so that a taken one is followed by another.
 */
async function clone(to: Connection, spec: ContainerSpec, signal: AbortSignal): Promise<Made> {
  const { api, node, template, pool, owner, remover, inTurn, onAbsentTemplate } = to
  const name = nameOf(spec.id)
  const taken = new Set<number>()
  return inTurn(async () => {
    for (let tries = 0; tries < mostIds; tries += 1) {
      const vmid = await freeId(to, taken, signal)
      const made = { vmid, name }
      const parameters = {
        newid: vmid,
        hostname: name,
        description: describe({ owner, made: Date.now() }),
        ...(pool === undefined ? {} : { pool }),
      }
      try {
        await unlessLocked(
          () =>
            api.perform(
              'POST',
              `/nodes/${node}/lxc/${template}/clone`,
              `clone the template ${template}`,
              signal,
              parameters,
            ),
          signal,
        )
        return made
      } catch (error) {
        // Whether it was made is unknown, unless the id was another container's.
        if (problemOf(error) !== 'exists') remover.expect(idOf(made))
        signal.throwIfAborted()
        if (problemOf(error) === 'absent') onAbsentTemplate()
        if (problemOf(error) !== 'exists') throw error
        taken.add(vmid)
      }
    }
    throw apiError('exists', `${mostIds} ids of the range were taken by others one after the other.`)
  }, signal)
}

/** An id of the range that no container of the cluster has; taken at random, so that owners seldom meet. */
async function freeId(
  { api, addresses }: Connection,
  taken: ReadonlySet<number>,
  signal: AbortSignal,
): Promise<number> {
  const rows = await api.ask('GET', '/cluster/resources', signal, { type: 'vm' })
  const used = new Set([
    ...taken,
    ...(Array.isArray(rows) ? rows.map((row) => (isObject(row) ? Number(row.vmid) : 0)) : []),
  ])
  const { first, last } = addresses
  const free = Array.from({ length: last - first + 1 }, (_, at) => first + at).filter((vmid) => !used.has(vmid))
  const found = free.length === 0 ? undefined : free[randomInt(free.length)]
  if (found !== undefined) return found
  throw apiError('exists', `All ids from ${first} to ${last} are in use.`, {
    remedy: 'Lower the number of sandboxes, or widen runtimes.proxmox.vmids.',
  })
}

/** Repeats a request that met a lock, at growing intervals and for a bounded time. */
async function unlessLocked<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const until = performance.now() + lockedMs
  for (let waitMs = firstPauseMs; ; waitMs = Math.min(waitMs * 2, longestPauseMs)) {
    try {
      return await work()
    } catch (error) {
      if (problemOf(error) !== 'locked' || performance.now() + waitMs > until) throw error
      await pause(waitMs * (0.5 + Math.random() / 2), undefined, { signal })
    }
  }
}

/** Connects to the agent of a container that was started. */
async function agentOf(
  { addresses, agentKey }: Connection,
  { vmid, name }: Made,
  given: AbortSignal,
): Promise<GuestAgent> {
  const { address } = addresses.of(vmid)
  const key = await agentKey()
  const late = AbortSignal.timeout(agentMs)
  try {
    return await connectAgent({ address, name, key }, AbortSignal.any([given, late]))
  } catch (error) {
    given.throwIfAborted()
    if (error instanceof AgentRefusal) {
      throw apiError('other', error.message, {
        cause: error,
        remedy: 'Compare runtimes.proxmox.agentKey with the key that the template was made with.',
      })
    }
    if (!late.aborted) throw error
    const message = `The container ${vmid} was started, and its agent at ${address} did not answer within ${agentMs / 1_000} s. Let this machine reach the bridge of runtimes.proxmox.network, and look at the template.`
    throw new ToolError('SANDBOX_INIT_FAILED', message, { cause: error })
  }
}

function containerOf(to: Connection, made: Made, { channel, closed }: GuestAgent): Container {
  let removing: Promise<readonly string[]> | undefined
  const remove = async (): Promise<readonly string[]> => {
    channel.destroy()
    return (await to.remover.remove(idOf(made))) ? [] : [`container ${made.vmid}`]
  }
  const died = closed.then(
    (hasEnded): ContainerEnd =>
      hasEnded
        ? { kind: 'exited', code: 0 }
        : { kind: 'lost', reason: `The connection to the container ${made.vmid} was lost.` },
  )
  return {
    channel,
    pid: undefined,
    stderr: () => '',
    isOutOfMemory: () => false,
    died,
    async kill() {
      channel.destroy()
      return isStopped(to, made, AbortSignal.timeout(killedMs))
    },
    remove() {
      removing ??= remove()
      return removing
    },
  }
}

/** Waits until Proxmox says that no process of it runs; its agent powers it off when the connection ends. */
async function isStopped({ api, node }: Connection, { vmid }: Made, signal: AbortSignal): Promise<boolean> {
  try {
    for (let waitMs = 5; ; waitMs = Math.min(waitMs * 2, 250)) {
      const state = await api.ask('GET', `/nodes/${node}/lxc/${vmid}/status/current`, signal)
      if (isObject(state) && state.status === 'stopped') return true
      await pause(waitMs, undefined, { signal })
    }
  } catch (error) {
    return problemOf(error) === 'absent'
  }
}

/** One try to remove a container, if it is still the same one. */
function containerRemoval(api: ProxmoxApi, node: string): RemoveOnce {
  return async (id, signal) => {
    const [vmid = '', name = ''] = id.split('/')
    const path = `/nodes/${node}/lxc/${vmid}`
    try {
      const config = await api.ask('GET', `${path}/config`, signal)
      if (!isObject(config) || config.hostname !== name) return 'absent'
      await api.perform('DELETE', path, `remove the container ${vmid}`, signal, { force: true, purge: true })
      return 'gone'
    } catch (error) {
      const problem = problemOf(error)
      if (problem === 'absent') return 'absent'
      return problem === undefined || problem === 'unreachable' ? 'unanswered' : 'refused'
    }
  }
}

/** Removes what owners left that have died. Containers of others are recognized by range, name and description together. */
async function removeLeft({ api, node, addresses, remover }: Connection, signal: AbortSignal): Promise<void> {
  const { first, last } = addresses
  const rows = readListed(await api.ask('GET', `/nodes/${node}/lxc`, signal))
  for (const row of rows.filter(({ vmid, name }) => vmid >= first && vmid <= last && name.startsWith(namePrefix))) {
    const config = await api.ask('GET', `/nodes/${node}/lxc/${row.vmid}/config`, signal).catch(() => undefined)
    signal.throwIfAborted()
    const ownership = isObject(config) ? readOwnership(config.description) : undefined
    if (ownership === undefined) continue
    // An owner of another boot may be on another machine with access to the same node.
    const state = (owner: string) => stateOf(owner, { isHere: false })
    if (isLeft(row, ownership, state, Date.now())) await remover.remove(idOf(row))
  }
}

/** Host names have neither capitals nor underscores, which ids have. */
function nameOf(id: string): string {
  return `${namePrefix}${Buffer.from(id, 'base64url').toString('hex')}`
}
