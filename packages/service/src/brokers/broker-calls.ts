import { type Identity, type Issue, type JsonSchema, ToolError } from '@gantry/contract'
import type { Snapshots } from '../config/snapshots.ts'
import type { CallInput, ReplyAddress } from '../storage/calls/call-store.ts'
import type { OutboxPosts } from '../storage/outbox/outbox.ts'
import type { Decoded } from './codecs/codec.ts'
import type { ConsumeOptions } from './consumer.ts'
import type { GatewayView } from './gateways/gateway-names.ts'
import type { RedisGateway } from './gateways/redis-gateway.ts'
import type { ToolNaming } from './open-brokers.ts'

/** Admits a call that came over a broker. */
interface BrokerIntake {
  submit(
    input: CallInput,
    identity: Identity,
    origin: { readonly kind: 'broker'; readonly reply: ReplyAddress | undefined },
  ): Promise<{ readonly callId: string; readonly repeated: boolean }>
}

interface BrokerCallsOptions {
  readonly intake: BrokerIntake
  /** Notified of calls whose gateway may get notices. */
  readonly notices: { admitted(callId: string, tool: string, address: ReplyAddress, repeated: boolean): void }
  readonly posts: Pick<OutboxPosts, 'post'>
  readonly snapshots: Snapshots
  readonly view: GatewayView
  /** Undefined where no gateway uses Redis: then there are neither sessions nor a published catalog. */
  readonly gateway: RedisGateway | undefined
}

const never = new AbortController().signal

/**
 * Handles a decoded message: identifies its sender, resolves its tool, submits its call, and attaches a further reply
 * address to a known call.
 */
export function brokerCalls(
  options: BrokerCallsOptions,
): Pick<ConsumeOptions, 'session' | 'understand' | 'submit' | 'attach'> {
  const { intake, notices, posts, gateway } = options
  return {
    async session(session) {
      if (gateway !== undefined) return gateway.session(session)
      throw new ToolError('UNAUTHENTICATED', 'The message names a session, and no gateway with sessions is configured.')
    },
    understand: (decoded, sender) => understand(decoded, sender, options),
    async submit(input, sender, reply) {
      const submitted = await intake.submit(input, sender, { kind: 'broker', reply })
      if (reply !== undefined) {
        notices.admitted(submitted.callId, input.tool ?? input.kind, reply, submitted.repeated)
      }
      return submitted
    },
    async attach(callId, address, { tenant }) {
      const body = JSON.stringify(address)
      await posts.post([{ callId, tenant, kind: 'reply', target: address.to, body, waits: true }])
    },
  }
}

/** The call with the id of its tool in place of the gateway's name for it. */
async function understand(
  { input, catalogHash, binary = [] }: Decoded & { kind: 'call' },
  sender: Identity,
  { snapshots, view, gateway }: BrokerCallsOptions,
): Promise<CallInput> {
  const { tool: name } = input
  if (name === undefined) return input
  return snapshots.use(async ({ executor }) => {
    if (catalogHash === undefined || gateway === undefined) {
      return { ...input, tool: await view.find(executor, name, never, sender) }
    }
    try {
      const entry = executor.find(await view.find(executor, name, never, sender), { identity: sender })
      await gateway.judge(entry, catalogHash)
      refuseBinary(entry.tool.inputSchema, binary)
      // A sender that named no catalog is bound to none.
      return { ...input, tool: entry.id, ...(catalogHash === '' ? {} : { schemaDigest: entry.callDigest }) }
    } catch (error) {
      // The tool was in the catalog that the caller read; the caller has to read the catalog again.
      if (ToolError.is(error) && error.code === 'TOOL_NOT_FOUND') await gateway.judge(undefined, catalogHash)
      throw error
    }
  })
}

/** Sets the gateway names of tools, again after each change of the configuration. */
export function followNames(naming: ToolNaming, view: GatewayView, snapshots: Snapshots): () => void {
  const rename = async (): Promise<void> => {
    const names = await view.names(snapshots.current.executor)
    naming.nameFor = (id) => names.nameFor(id.split(':').slice(0, 2).join(':'))
  }
  const renamed = (): void => void rename().catch(() => undefined)
  renamed()
  return snapshots.onReplace(renamed)
}

type SchemaObject = Exclude<JsonSchema, boolean>

/** The most schemas visited for one argument; this also ends circular references. */
const mostLooks = 500

/**
 * Refuses arguments that arrived as binary data, and are base64 text by now, unless the tool's schema accepts such
 * text: by `contentEncoding: base64`, or by `format: byte` as in OpenAPI. Otherwise a tool that expects plain text
 * would get base64.
 * - Errors: INPUT_INVALID with the path of each.
 */
export function refuseBinary(inputSchema: JsonSchema, pointers: readonly string[]): void {
  const refused = pointers.filter((pointer) => !takesBinary(inputSchema, segmentsOf(pointer)))
  if (refused.length === 0) return
  const issues: Issue[] = refused.map((path) => {
    return { path, message: 'is binary data; the schema takes it only with contentEncoding base64 or format byte' }
  })
  const [first] = issues
  throw new ToolError('INPUT_INVALID', `The arguments are not valid: ${first?.path} ${first?.message}.`, {
    details: { issues: issues.slice(0, 20) },
  })
}

function segmentsOf(pointer: string): readonly string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function takesBinary(root: JsonSchema, segments: readonly string[]): boolean {
  let looks = mostLooks
  const takes = (schema: unknown, at: number): boolean => {
    looks -= 1
    if (looks < 0 || !isSchemaObject(schema)) return false
    if (at === segments.length && (schema.contentEncoding === 'base64' || schema.format === 'byte')) return true
    if (parts(schema, root).some((part) => takes(part, at))) return true
    const segment = segments[at]
    return segment !== undefined && takes(memberOf(schema, segment), at + 1)
  }
  return takes(root, 0)
}

/** Other schemas that apply to the same value. */
function parts(schema: SchemaObject, root: JsonSchema): readonly unknown[] {
  const { $ref, allOf, anyOf, oneOf } = schema
  const several = [allOf, anyOf, oneOf].flatMap(listOf)
  return typeof $ref === 'string' ? [...several, referred($ref, root)] : several
}

function memberOf({ properties, additionalProperties, items, prefixItems }: SchemaObject, segment: string): unknown {
  if (isSchemaObject(properties) && Object.hasOwn(properties, segment)) return properties[segment]
  if (/^\d{1,9}$/.test(segment)) {
    const first = listOf(prefixItems)[Number(segment)]
    if (first !== undefined || items !== undefined) return first ?? items
  }
  return additionalProperties
}

/** Resolves a reference within the schema; any other is not followed. */
function referred(reference: string, root: JsonSchema): unknown {
  if (!reference.startsWith('#')) return undefined
  let found: unknown = root
  for (const segment of segmentsOf(reference.slice(1))) {
    if (!isSchemaObject(found) || !Object.hasOwn(found, segment)) return undefined
    found = found[segment]
  }
  return found
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function isSchemaObject(value: unknown): value is SchemaObject {
  return typeof value === 'object' && value !== null
}
