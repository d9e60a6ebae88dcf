import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { goProgram } from './go.ts'
import { freePort, type KeptServer, keepServer } from './keeper.ts'

/** Links of bad quality on demand, between a client and any engine. */
export interface Toxiproxy extends KeptServer {
  /** A good link from a loopback port of its own to an address, `host:port`. */
  proxy(upstream: string): Promise<ProxiedLink>
}

/** A link that can be made bad, in both directions; ills add up until `heal`. */
export interface ProxiedLink {
  readonly port: number
  /** Nothing arrives any more, connections stay open, and new ones open too: a partition. */
  cut(): Promise<void>
  /** Closes connections and refuses new ones, as if the server were down. */
  refuse(): Promise<void>
  /** Adds latency with jitter. */
  latency(ms: number, jitter?: number): Promise<void>
  /** Limits the bandwidth, in kilobytes a second. */
  slow(kBps: number): Promise<void>
  /** Resets connections, including new ones. */
  reset(): Promise<void>
  /** Restores the link; interrupted connections are closed. */
  heal(): Promise<void>
  close(): Promise<void>
}

/** Builds it once per user, which takes a minute; a test run does it before the tests. */
export const toxiproxyProgram = {
  name: 'toxiproxy',
  package: 'github.com/Shopify/toxiproxy/v2/cmd/server',
  version: 'v2.5.0',
}

export async function startToxiproxy(): Promise<Toxiproxy> {
  const path = await goProgram(toxiproxyProgram)
  const folder = mkdtempSync(join(tmpdir(), 'gantry-toxiproxy-'))
  try {
    const port = await freePort()
    const ask = asker(`http://127.0.0.1:${port}`)
    const kept = await keepServer({
      name: 'toxiproxy',
      folder,
      lastSignal: 'KILL',
      command: [path, '-host', '127.0.0.1', '-port', String(port)],
      isReady: () =>
        ask('GET', '/version').then(
          () => true,
          () => false,
        ),
    })
    let links = 0
    return Object.assign(kept, {
      proxy: (upstream: string) => {
        links += 1
        return openLink(ask, `link-${links}`, upstream)
      },
    })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

type Ask = (method: string, path: string, body?: object) => Promise<unknown>

function asker(api: string): Ask {
  return async (method, path, body) => {
    const answer = await fetch(`${api}${path}`, { method, ...(body && { body: JSON.stringify(body) }) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`toxiproxy: ${method} ${path}: ${answer.status} ${text}`)
    return text.startsWith('{') ? JSON.parse(text) : undefined
  }
}

async function openLink(ask: Ask, name: string, upstream: string): Promise<ProxiedLink> {
  const made = await ask('POST', '/proxies', { name, upstream, listen: '127.0.0.1:0', enabled: true })
  const { listen } = made as { readonly listen: string }
  const path = `/proxies/${name}`
  const toxics = new Set<string>()
  const heal = async (): Promise<void> => {
    for (const toxic of toxics) await ask('DELETE', `${path}/toxics/${toxic}`)
    toxics.clear()
    await ask('POST', path, { enabled: true, listen, upstream })
  }
  const add = async (type: string, attributes: object): Promise<void> => {
    for (const stream of ['upstream', 'downstream']) {
      const toxic = `${type}-${stream}`
      if (toxics.has(toxic)) await ask('DELETE', `${path}/toxics/${toxic}`)
      await ask('POST', `${path}/toxics`, { name: toxic, type, stream, toxicity: 1, attributes })
      toxics.add(toxic)
    }
  }
  return {
    port: Number(listen.slice(listen.lastIndexOf(':') + 1)),
    cut: () => add('timeout', { timeout: 0 }),
    refuse: async () => void (await ask('POST', path, { enabled: false, listen, upstream })),
    latency: (ms, jitter = 0) => add('latency', { latency: ms, jitter }),
    slow: (kBps) => add('bandwidth', { rate: kBps }),
    reset: () => add('reset_peer', { timeout: 0 }),
    heal,
    close: async () => void (await ask('DELETE', path)),
  }
}
