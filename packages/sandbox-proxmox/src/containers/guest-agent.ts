import { createHmac } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type TLSSocket } from 'node:tls'
import { isObject, isText } from '@gantry/contract/internal/json'
import { parseJson } from '@gantry/core/internal/json/parse'
import { defaultJsonLimits } from '@gantry/core/internal/json/plain'
import { onAbort } from '@gantry/core/internal/resilience/abort'

/** The way into one container: `guest/agent.mjs` is its other end. */
export interface GuestAgent {
  /** What the image of the template has, as `/gantry/contents.json` says. */
  readonly contents: { readonly [name: string]: string }
  /** Sends the parameters by which the init starts. */
  enter(parameters: AgentParameters): void
  /** The init's stdin and stdout. Ending or destroying it ends the container. */
  readonly channel: Duplex
  /** Resolves when the connection is closed; true when the container closed it. */
  readonly closed: Promise<boolean>
}

export interface AgentParameters {
  readonly uid: number
  readonly workBytes: number
  readonly sharedBytes: number
}

interface AgentAddress {
  readonly address: string
  /** The name of the container, which its key is derived from. */
  readonly name: string
  /** The key in the template. */
  readonly key: string
}

export const agentPort = 7422
const attemptMs = 2_000
const firstPauseMs = 10
const longestPauseMs = 250
const mostGreetingBytes = 16_384
const keepAliveMs = 10_000

/** The key of one container; `guest/agent.mjs` derives the same and keeps no other. */
export function containerKey(key: string, name: string): Buffer {
  return createHmac('sha256', key).update(`gantry-agent-1\n${name}`).digest()
}

/** A container whose agent has another key, or none of ours. */
export class AgentRefusal extends Error {
  override readonly name = 'AgentRefusal'
}

/** Connects as soon as the agent listens. Rejects with AgentRefusal, or with the signal's reason. */
export async function connectAgent(at: AgentAddress, signal: AbortSignal): Promise<GuestAgent> {
  for (let waitMs = firstPauseMs; ; waitMs = Math.min(waitMs * 1.5, longestPauseMs)) {
    signal.throwIfAborted()
    const socket = await attempt(at, signal)
    if (socket !== undefined) return greeted(socket, signal)
    await pause(waitMs, undefined, { signal })
  }
}

/** Undefined while nothing answers there. */
function attempt({ address, name, key }: AgentAddress, signal: AbortSignal): Promise<TLSSocket | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: address,
      port: agentPort,
      ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
      minVersion: 'TLSv1.2',
      maxVersion: 'TLSv1.2',
      // There is no certificate: both sides prove that they have the key.
      checkServerIdentity: () => undefined,
      pskCallback: () => ({ psk: containerKey(key, name), identity: name }),
    })
    const late = setTimeout(() => socket.destroy(), attemptMs)
    const leave = onAbort(signal, () => void socket.destroy())
    const settle = (): void => {
      clearTimeout(late)
      leave()
    }
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (/ALERT|BAD_RECORD|PSK|DECRYPT/.test(error.code ?? '')) {
        settle()
        reject(new AgentRefusal(`The container does not accept the key of runtimes.proxmox.agentKey (${error.code}).`))
      }
    })
    socket.once('close', () => {
      settle()
      if (signal.aborted) reject(signal.reason)
      else resolve(undefined)
    })
    socket.once('secureConnect', () => {
      settle()
      socket.setNoDelay(true)
      socket.setKeepAlive(true, keepAliveMs)
      resolve(socket)
    })
  })
}

/** Reads the first line; what follows is the init's. */
async function greeted(socket: TLSSocket, signal: AbortSignal): Promise<GuestAgent> {
  const closed = Promise.withResolvers<boolean>()
  let hasEnded = false
  socket.on('end', () => {
    hasEnded = true
  })
  socket.on('close', () => closed.resolve(hasEnded))
  const leave = onAbort(signal, () => void socket.destroy())
  const late = setTimeout(() => socket.destroy(), attemptMs)
  try {
    const line = await firstLine(socket)
    signal.throwIfAborted()
    return {
      contents: contentsOf(line),
      channel: socket,
      closed: closed.promise,
      enter: ({ uid, workBytes, sharedBytes }) => void socket.write(`${uid} ${workBytes} ${sharedBytes}\n`),
    }
  } catch (error) {
    socket.destroy()
    signal.throwIfAborted()
    throw error
  } finally {
    clearTimeout(late)
    leave()
  }
}

/** The init says nothing before it has the parameters, so that nothing follows the line. */
function firstLine(socket: TLSSocket): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = Buffer.alloc(0)
    const leave = (): void => {
      socket.off('readable', take)
      socket.off('close', gone)
    }
    const gone = (): void => {
      leave()
      reject(new AgentRefusal('The container closed the connection before it said what it has.'))
    }
    // By `read`, because a stream that flowed or was paused does not begin to flow for its next listener by itself.
    const take = (): void => {
      const bytes: Buffer | null = socket.read()
      if (bytes === null) return
      text = Buffer.concat([text, bytes])
      const end = text.indexOf(10)
      if (end === -1 && text.length < mostGreetingBytes) return
      leave()
      if (end === text.length - 1) resolve(text.toString('utf8', 0, end))
      else reject(new AgentRefusal('The container said something else than what its image has.'))
    }
    socket.on('readable', take)
    socket.once('close', gone)
  })
}

function contentsOf(line: string): GuestAgent['contents'] {
  try {
    const value = parseJson(line, { ...defaultJsonLimits, bytes: mostGreetingBytes, depth: 2, nodes: 100 })
    if (isObject(value))
      return Object.fromEntries(Object.entries(value).filter((one): one is [string, string] => isText(one[1])))
  } catch {
    // Reported below.
  }
  throw new AgentRefusal('The container did not say what its image has.')
}
