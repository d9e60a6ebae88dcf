import type { HttpAuth, HttpBody, Json, JsonObject } from '@gantry/contract'
import { openHeader, type Unsealer } from './auth.ts'
import type { Plan } from './binding.ts'
import { constantPair, joinPairs, type SentBody, writeBody } from './body.ts'
import { badArgument } from './check.ts'
import { headerFromArgument, headerSafe } from './headers.ts'
import type { Settings } from './options.ts'
import { expandPath, urlBelow } from './path.ts'
import { type Pair, type Place, writePairs, writeText } from './values.ts'

/** What the arguments of a call make of a request; secrets are not in it yet. */
export interface Draft {
  readonly method: string
  readonly path: string
  readonly query: readonly Pair[]
  readonly headers: ReadonlyMap<string, string>
  readonly cookies: readonly Pair[]
  readonly body: SentBody | undefined
}

/** A request as the guard takes it. */
export interface SealedRequest {
  readonly url: string
  readonly method: string
  readonly headers: { readonly [name: string]: string }
  readonly body?: string | Uint8Array
}

/** Places the arguments as the binding says; throws INPUT_INVALID for those that have no place or would not arrive. */
export function draftRequest(plan: Plan, args: JsonObject, idempotencyKey: string, settings: Settings): Draft {
  const rest = restOf(plan, args)
  const inQuery = bodiless.has(plan.method) && (plan.body === undefined || plan.body.arg !== undefined)
  const body = bodyOf(plan, args, inQuery ? {} : rest)
  const key = plan.idempotencyHeader ?? settings.idempotencyHeader
  const keyed = key === false || safe.has(plan.method) ? [] : [[key.toLowerCase(), headerSafe(idempotencyKey)] as const]
  return {
    method: plan.method,
    path: expandPath(plan.path, args),
    query: [
      ...plan.query.flatMap((place) => pairsOf(place, args)),
      ...Object.entries(inQuery ? rest : {}).flatMap(([name, value]) => writePairs(loose(name, value), value)),
    ],
    headers: new Map([...keyed, ...plan.header.flatMap((place) => headerOf(place, args))]),
    cookies: plan.cookie.flatMap((place) => pairsOf(place, args)),
    body,
  }
}

/** Methods that ask for nothing to change, and so need no key. */
const safe: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
const bodiless: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE'])

function restOf(plan: Plan, args: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(args).filter(([name]) => !plan.placed.has(name)))
}

function bodyOf(plan: Plan, args: JsonObject, rest: JsonObject): SentBody | undefined {
  const [stray] = Object.keys(rest)
  if (plan.body?.arg !== undefined && stray !== undefined) throw badArgument(stray, 'has no place in the request')
  const implied: HttpBody | undefined = stray === undefined ? undefined : { type: 'json' }
  const body = plan.body ?? implied
  return body === undefined ? undefined : writeBody(body, args, rest)
}

/** An argument that nothing places: as a form writes it, and by `name[key]` when it has members, so that none is lost. */
function loose(name: string, value: Json): Place {
  const deep = typeof value === 'object' && value !== null && !Array.isArray(value)
  return { argument: name, name, style: deep ? 'deepObject' : 'form', explode: true, reserved: false, json: false }
}

function pairsOf(place: Place, args: JsonObject): Pair[] {
  const value = Object.hasOwn(args, place.argument) ? args[place.argument] : undefined
  return value === undefined ? [] : writePairs(place, value)
}

function headerOf(place: Place, args: JsonObject): [name: string, value: string][] {
  const value = Object.hasOwn(args, place.argument) ? args[place.argument] : undefined
  if (value === undefined || value === null) return []
  return [[place.name.toLowerCase(), writeText(place, value, headerFromArgument)]]
}

/**
 * Adds what the configuration sends: constants and proof of who calls, with their secrets. What the configuration
 * names, no argument may name too: a server that takes the other of two would be talked out of its credentials.
 */
export async function sealRequest(
  draft: Draft,
  plan: Plan,
  settings: Settings,
  unsealer: Unsealer,
): Promise<SealedRequest> {
  const auth = plan.auth ?? settings.auth
  const constants = { ...settings.constants, ...plan.constants, ...named(auth, 'query') }
  const biscuits = named(auth, 'cookie')
  refuseDoubles(draft.query, constants, 'query')
  refuseDoubles(draft.cookies, biscuits, 'cookie')
  const headers = await openHeaders(draft, plan, settings, auth, unsealer)
  const cookies = [...draft.cookies, ...(await openPairs(biscuits, unsealer))]
  if (cookies.length > 0)
    headers.cookie = [...(headers.cookie ? [headers.cookie] : []), joinPairs(cookies, '; ')].join('; ')
  const query = joinPairs([...draft.query, ...(await openPairs(constants, unsealer))])
  return {
    url: urlBelow(settings.base, draft.path, query),
    method: draft.method,
    headers,
    ...(draft.body === undefined ? {} : { body: draft.body.data }),
  }
}

function named(auth: readonly HttpAuth[], type: 'query' | 'cookie'): { [name: string]: string } {
  return Object.fromEntries(auth.flatMap((one) => (one.type === type ? [[one.name, one.value]] : [])))
}

function refuseDoubles(pairs: readonly Pair[], constants: object, where: string): void {
  const taken = new Set(Object.keys(constants).map((name) => constantPair(name, '')[0]))
  const double = pairs.find(([name]) => taken.has(name))
  if (double === undefined) return
  throw badArgument(decodeURIComponent(double[0]), `would send a second value for a ${where} parameter that is fixed`)
}

async function openPairs(constants: { readonly [name: string]: string }, unsealer: Unsealer): Promise<Pair[]> {
  const pairs: Pair[] = []
  for (const [name, sealed] of Object.entries(constants)) pairs.push(constantPair(name, await unsealer.open(sealed)))
  return pairs
}

/** Later ones win: defaults, the backend's, the binding's, the arguments', the body's type, proof of who calls. */
async function openHeaders(
  draft: Draft,
  plan: Plan,
  settings: Settings,
  auth: readonly HttpAuth[],
  unsealer: Unsealer,
): Promise<{ [name: string]: string }> {
  const headers: { [name: string]: string } = Object.create(null)
  headers.accept = accepts[plan.response] ?? '*/*'
  for (const [name, sealed] of [...Object.entries(settings.headers), ...Object.entries(plan.headers)]) {
    headers[name.toLowerCase()] = await openHeader(unsealer, name, sealed)
  }
  for (const [name, value] of draft.headers) headers[name] = value
  if (draft.body !== undefined) headers['content-type'] = draft.body.mediaType
  for (const one of auth) Object.assign(headers, await authHeader(one, unsealer))
  return headers
}

async function authHeader(auth: HttpAuth, unsealer: Unsealer): Promise<{ [name: string]: string }> {
  if (auth.type === 'bearer')
    return { authorization: `Bearer ${await openHeader(unsealer, 'Authorization', auth.token)}` }
  if (auth.type === 'header') return { [auth.name.toLowerCase()]: await openHeader(unsealer, auth.name, auth.value) }
  if (auth.type !== 'basic') return {}
  const pair = `${await unsealer.open(auth.username)}:${await unsealer.open(auth.password)}`
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
}

const accepts: { readonly [response: string]: string } = {
  auto: 'application/json, text/event-stream;q=0.9, */*;q=0.8',
  json: 'application/json',
  text: 'text/*, */*;q=0.8',
  sse: 'text/event-stream',
  ndjson: 'application/x-ndjson, application/jsonl, */*;q=0.8',
}
