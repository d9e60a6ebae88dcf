import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RedisConnections } from '../src/brokers/transports/redis/connection.ts'
import { listOf, textOf } from '../src/brokers/transports/redis/reply.ts'
import type { Database } from '../src/storage/databases/database.ts'

/** Finds secrets in text or bytes, and names each with the encoding that it was found in. */
export interface CanarySearch {
  find(text: string | Uint8Array): readonly string[]
}

/**
 * Looks for secrets as they are, in base64 of every alignment, base64url, hex, URLs, JSON, HTML and UTF-16, and for any
 * eleven characters of the secret in a row of these: what a cut left of a secret is a secret too.
 */
export function createSearch(secrets: { readonly [name: string]: string }): CanarySearch {
  const needles = Object.entries(secrets).flatMap(([name, secret]) =>
    Object.entries(formsOf(secret)).flatMap(([form, text]) =>
      piecesOf(text, widthOf(form)).map((part) => ({ part, name: `${name} as ${form}` })),
    ),
  )
  return {
    find(given) {
      const text = typeof given === 'string' ? given : Buffer.from(given).toString('latin1')
      return [...new Set(needles.filter(({ part }) => text.includes(part)).map(({ name }) => name))]
    },
  }
}

/** Encodings that work character by character, so that a piece of the encoded text is the encoding of a piece. */
export function formsOf(secret: string): { readonly [form: string]: string } {
  const hex = Buffer.from(secret).toString('hex')
  const aligned = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), Buffer.from(secret)]).toString('base64')
    return text.slice(Math.ceil((shift * 8) / 6), Math.floor(((shift + secret.length) * 8) / 6))
  })
  return {
    plain: secret,
    hex,
    'upper hex': hex.toUpperCase(),
    url: encodeURIComponent(secret),
    json: JSON.stringify(secret).slice(1, -1),
    wide: Buffer.from(secret, 'utf16le').toString('latin1'),
    ...Object.fromEntries(aligned.map((text, shift) => [`base64 from ${shift}`, text])),
    ...Object.fromEntries(
      aligned.map((text, shift) => [`base64url from ${shift}`, text.replaceAll('+', '-').replaceAll('/', '_')]),
    ),
  }
}

/** The number of encoded characters for each character of the secret. */
export function widthOf(form: string): number {
  return form === 'wide' || form.endsWith('hex') ? 2 : 1
}

/**
 * Pieces of a text of which any eleven characters of the secret contain one. Shorter pieces would match by chance: four
 * letters in UTF-16 are four small numbers in a row, of which a write-ahead log is full.
 */
function piecesOf(text: string, width: number): string[] {
  const piece = 8 * width
  const pieces: string[] = []
  for (let at = 0; at + piece <= text.length; at += piece / 2) pieces.push(text.slice(at, at + piece))
  return pieces
}

/** Every row of every table, as JSON. */
export async function dumpDatabase(database: Pick<Database, 'query'>): Promise<string> {
  const names = await database.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'gantry' order by 1`,
  )
  const tables = await Promise.all(
    names.map(async ({ name }) => {
      const rows = await database.query<{ row: string }>(`select row_to_json(t)::text as row from gantry.${name} t`)
      return `${name}\n${rows.map(({ row }) => row).join('\n')}`
    }),
  )
  return tables.join('\n')
}

/** Every key of a Redis database with its value. */
export async function dumpRedis(redis: RedisConnections): Promise<string> {
  const keys = listOf(await redis.call(['KEYS', '*'])).map(textOf)
  const held = await Promise.all(
    keys.map(async (key) => {
      const type = textOf(await redis.call(['TYPE', key]))
      const read = readers[type]
      if (read === undefined) throw new Error(`${key} is a ${type}, which this search cannot read.`)
      return `${key} ${bytesOf(await redis.call(read(key)))}`
    }),
  )
  return held.join('\n')
}

const readers: { readonly [type: string]: (key: string) => readonly [string, ...(string | number)[]] } = {
  string: (key) => ['GET', key],
  stream: (key) => ['XRANGE', key, '-', '+'],
  hash: (key) => ['HGETALL', key],
  list: (key) => ['LRANGE', key, 0, -1],
  set: (key) => ['SMEMBERS', key],
  zset: (key) => ['ZRANGE', key, 0, -1],
}

function bytesOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(bytesOf).join('\n')
  return Buffer.isBuffer(value) ? value.toString('latin1') : String(value)
}

/** Every file below a folder with its path, except the service's own key files. */
export function readTree(
  folder: string,
  leaveOut: readonly string[],
): { readonly path: string; readonly bytes: Buffer }[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !leaveOut.includes(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path, bytes: readFileSync(path) }))
}
