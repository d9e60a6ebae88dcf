import { createHmac, type ScryptOptions, scrypt } from 'node:crypto'
import type { WorkerView } from '@gantry/contract'
import type { Bus } from '../observe/bus.ts'

/** What must be equal in all processes of a service, by its label in metrics: its name, and how to make it equal. */
export const sharedParts = {
  api_key: { name: 'API key', advice: 'copy the file `key` of one data folder to the others' },
  callback_key: {
    name: 'callback key',
    advice: 'name one secret in service.callbackSecret, or copy the file `callback-key`',
  },
  approvals_key: { name: 'key of the approvals webhook', advice: 'give the secret of approvals.webhook one value' },
  audit_keys: { name: 'audit keys', advice: 'give service.auditSecrets the same secrets in the same order' },
  configuration: {
    name: 'configuration',
    advice: 'deploy one file, and set the same environment variables; during a deploy this passes',
  },
  tools: {
    name: 'tools',
    advice: 'deploy the same tools; until then, a call waits for a server with its tool; during a deploy this passes',
  },
  artifacts: {
    name: 'place of artifacts',
    advice: 'configure s3, or share one artifacts folder; until then, servers do not find each other’s files',
  },
} as const

export type SharedPart = keyof typeof sharedParts

/** By part: the value, or its fingerprint. A part that a process does not use is absent, and not compared. */
export type SharedTexts = { readonly [Part in SharedPart]?: string }

/** Memory-hard, so that a secret that can be guessed cannot be tried fast. */
const cost: ScryptOptions = { N: 16_384, r: 8, p: 1 }
const fingerprintBytes = 12

/**
 * Fingerprints of values, which can be compared and do not reveal them. The salt is of this database and this part, so that
 * equal values have other fingerprints elsewhere.
 */
export async function fingerprintsOf(texts: SharedTexts, key: string): Promise<SharedTexts> {
  const made = Object.entries(texts).map(async ([part, text]): Promise<[string, string]> => {
    const salt = createHmac('sha256', key).update(`gantry server ${part}`).digest()
    return [part, (await hashed(text, salt)).toString('hex')]
  })
  return Object.fromEntries(await Promise.all(made))
}

function hashed(text: string, salt: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(text, salt, fingerprintBytes, cost, (error, found) => (error === null ? resolve(found) : reject(error)))
  })
}

/** The parts that both have and that differ. */
export function differingParts(own: SharedTexts, other: SharedTexts): readonly SharedPart[] {
  return Object.keys(sharedParts)
    .filter(isPart)
    .filter((part) => own[part] !== undefined && other[part] !== undefined && own[part] !== other[part])
}

interface ComparisonParts {
  /** The name of this process. */
  readonly name: string
  readonly bus: Bus
  /** The key of the database for digests. */
  readonly key: string
  /** The values at the moment; undefined where no other process can share the database. */
  readonly texts: (() => Promise<SharedTexts>) | undefined
  /** The processes of the service, with what differs from these fingerprints. */
  readonly list: (own: SharedTexts) => Promise<readonly WorkerView[]>
}

/** Compares what must be equal in all processes, through the database. */
export interface ServerComparison {
  /** The fingerprints of this process; empty before the first `refresh`. */
  readonly fingerprints: SharedTexts
  /** How many other live processes differ, by part. */
  readonly mismatches: { readonly [part: string]: number }
  /** Reads the values again; the next heartbeat writes the fingerprints. */
  refresh(): Promise<void>
  /** Has the next look read the values again. */
  expire(): void
  /** Compares with the other live processes, and emits each difference once, until it ends. */
  look(): Promise<void>
}

export function createServerComparison({ name, bus, key, texts, list }: ComparisonParts): ServerComparison {
  let fingerprints: SharedTexts = {}
  let isStale = true
  let known = new Map<string, { readonly worker: string; readonly part: SharedPart }>()
  const refresh = async (): Promise<void> => {
    isStale = false
    if (texts !== undefined) fingerprints = await fingerprintsOf(await texts(), key)
  }
  return {
    get fingerprints() {
      return fingerprints
    },
    get mismatches() {
      const counts: { [part: string]: number } = Object.fromEntries(Object.keys(sharedParts).map((part) => [part, 0]))
      for (const { part } of known.values()) counts[part] = (counts[part] ?? 0) + 1
      return counts
    },
    refresh,
    expire() {
      isStale = true
    },
    async look() {
      if (texts === undefined) return
      if (isStale) await refresh()
      const others = (await list(fingerprints)).filter(({ worker, state }) => worker !== name && isLive(state))
      const found: typeof known = new Map()
      for (const { worker, host, differs = [] } of others) {
        for (const part of differs.filter(isPart)) {
          const at = `${part} ${worker}`
          found.set(at, { worker, part })
          if (!known.has(at)) bus.emit('server:differs', { worker, host, what: part, ...sharedParts[part] })
        }
      }
      for (const [at, { worker, part }] of known) {
        const isThere = others.some((other) => other.worker === worker)
        if (!found.has(at) && isThere) bus.emit('server:agrees', { worker, what: part, name: sharedParts[part].name })
      }
      known = found
    },
  }
}

function isPart(part: string): part is SharedPart {
  return Object.hasOwn(sharedParts, part)
}

function isLive(state: WorkerView['state']): boolean {
  return state === 'ready' || state === 'starting'
}
