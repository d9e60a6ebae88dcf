import { createHash } from 'node:crypto'
import { openaiChat } from '@gantry/adapters'
import type { Json, Tool } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { encodeMsgpack } from '../codecs/msgpack.ts'
import type { GatewayNames, GatewayView, Listing } from './gateway-names.ts'

/** A catalog as gateways read it, and the digests for judging their requests. */
export interface WrittenCatalog {
  /** The hash of the name, description, parameters and flags of every tool; the same wherever the same tools are. */
  readonly hash: string
  /** The hash of the whole content, so that a change of permissions changes it too. */
  readonly fingerprint: string
  /** MessagePack: `{ tools, permissions, schema_hash }`. */
  readonly bytes: Uint8Array
  /** Digests of the tools, by `namespace:name`. */
  readonly digests: ReadonlyMap<string, string>
  /** Ids of tools that were too large. */
  readonly leftOut: readonly string[]
}

export interface WriteOptions {
  /** The gateway users that may call a tool; undefined when all may. The catalog publishes no other permission. */
  readonly usersOf?: (tool: Tool) => readonly string[] | undefined
  /** Set when no call gets an interim answer. */
  readonly noBackground?: boolean
  /** The limit of one tool, 131,072 when absent; of all, 16,777,216. A tool beyond is left out. */
  readonly toolBytes?: number
  readonly totalBytes?: number
}

/** What a gateway shows its model, and what it needs to call the tool. */
export interface PublishedTool {
  readonly name: string
  readonly description: string
  readonly parameters: Json
  /** The tool may be called again with the same arguments without harm. */
  readonly allow_repeat: boolean
  /** A long call gets no interim answer: the tool opts out, or the gateway's settings disable it. */
  readonly no_background: boolean
  readonly id: string
  readonly version: string
  readonly digest: string
  readonly effect: string
}

interface WrittenTool {
  readonly name: string
  readonly key: string
  readonly digest: string
  readonly effect: string
  /** The hash of the parts that count for the catalog hash. */
  readonly shown: string
  readonly bytes: Uint8Array
  readonly users: readonly string[] | undefined
}

const adapter = openaiChat()

/** Writes the tools that gateways see, and yields to the event loop between pages. */
export async function writeCatalog(
  executor: Listing,
  view: GatewayView,
  signal: AbortSignal,
  options: WriteOptions = {},
): Promise<WrittenCatalog> {
  const { toolBytes = 131_072, totalBytes = 16_777_216 } = options
  const names = await view.names(executor)
  const written: WrittenTool[] = []
  const leftOut: string[] = []
  const everything = createHash('sha256')
  let bytesLeft = totalBytes
  for await (const entries of view.pages(executor, signal)) {
    for (const tool of writeTools(entries, names, options)) {
      if (tool.bytes.length > Math.min(toolBytes, bytesLeft)) {
        leftOut.push(tool.key)
        continue
      }
      bytesLeft -= tool.bytes.length
      written.push(tool)
      everything.update(`${tool.key} ${tool.shown} ${tool.digest} ${tool.effect} ${JSON.stringify(tool.users)}\n`)
    }
  }
  written.sort((a, b) => (a.name < b.name ? -1 : 1))
  return { ...assemble(written), fingerprint: everything.digest('hex'), leftOut }
}

function writeTools(
  entries: readonly CatalogEntry[],
  names: GatewayNames,
  { usersOf, noBackground = false }: WriteOptions,
): WrittenTool[] {
  const adapted = adapter.tools(entries)
  return entries.map((entry, index) => {
    const { key, digest, tool } = entry
    const { description = '', parameters = {} } = adapted.tools[index]?.function ?? {}
    const allow_repeat = tool.effect === 'read' || tool.effect === 'repeatable'
    const shown = {
      name: names.nameFor(key),
      description,
      parameters: parameters as Json,
      allow_repeat,
      no_background: noBackground || tool.background === false,
    }
    const published: PublishedTool = { ...shown, id: key, version: tool.version, digest, effect: tool.effect }
    return {
      name: shown.name,
      key,
      digest,
      effect: tool.effect,
      shown: hashOf(canonicalJson(shown)),
      bytes: encodeMsgpack(published),
      users: usersOf?.(tool),
    }
  })
}

/** Assembles the catalog from encoded tools, so that no part of it blocks for long. */
function assemble(tools: readonly WrittenTool[]): Omit<WrittenCatalog, 'fingerprint' | 'leftOut'> {
  const hash = hashOf(tools.map(({ name, shown }) => `${name} ${shown}\n`).join(''))
  const permissions = Object.fromEntries(
    tools.flatMap(({ name, users }) => (users === undefined ? [] : [[name, users]])),
  )
  const digests = new Map(tools.map(({ key, digest }) => [key, digest]))
  const head = Buffer.of(0x83, ...encodeMsgpack('tools'), 0xdd, 0, 0, 0, 0)
  head.writeUInt32BE(tools.length, head.length - 4)
  const rest = [
    encodeMsgpack('permissions'),
    encodeMsgpack(permissions),
    encodeMsgpack('schema_hash'),
    encodeMsgpack(hash),
  ]
  const bytes = Buffer.concat([head, ...tools.map((tool) => tool.bytes), ...rest])
  return { hash, bytes, digests }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
