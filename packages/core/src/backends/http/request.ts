import type { EffectClass, HttpAuth, HttpBody, Json, JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { fillSecrets, type Secrets, secretNames } from '../../ids/secret-reference.ts'
import type { Plan } from './binding.ts'
import { constantPair, joinPairs, type SentBody, writeBody } from './body.ts'
import { fillHeader, headerFromArgument, headerSafe } from './headers.ts'
import type { Settings } from './options.ts'
import {
  badArgument,
  expandPath,
  type Pair,
  type ParameterTarget,
  urlBelow,
  writePairs,
  writeText,
} from './parameters.ts'

/** The part of a request that the arguments determine, without secrets. */
export interface Draft {
  readonly method: string
  readonly path: string
  readonly query: readonly Pair[]
  /** In lower case; a later header overrides an earlier one of the same name. */
  readonly headers: readonly Pair[]
  readonly cookies: readonly Pair[]
  readonly body: SentBody | undefined
  /** The header that carries the idempotency key, when there is one. */
  readonly key: string | undefined
}

/** A complete request for the guard. */
export interface SealedRequest {
  readonly url: URL
  readonly method: string
  readonly headers: { readonly [name: string]: string }
  readonly body?: string | Uint8Array
}

/** Maps the arguments to the request; throws INPUT_INVALID for unbound arguments and for values that cannot be sent. */
export function draftRequest(
  plan: Plan,
  fixed: Fixed,
  args: JsonObject,
  idempotencyKey: string,
  effect: EffectClass,
): Draft {
  const rest = restOf(plan, args)
  const inQuery = bodiless.has(plan.method) && (plan.body === undefined || plan.body.arg !== undefined)
  const body = bodyOf(plan, args, inQuery ? {} : rest)
  const key = safe.has(plan.method) && effect === 'read' ? undefined : fixed.idempotencyHeader
  return {
    method: plan.method,
    path: fixed.path ?? expandPath(plan.path, args),
    query: queryOf(plan, args, inQuery ? rest : undefined),
    headers: headersFrom(plan, args, key, idempotencyKey),
    cookies: plan.cookie.length === 0 ? none : plan.cookie.flatMap((place) => pairsOf(place, args)),
    body,
    key,
  }
}

const none: readonly Pair[] = []

/** The query parameters of the binding, then the unbound arguments when they go into the query. */
function queryOf(plan: Plan, args: JsonObject, rest: JsonObject | undefined): readonly Pair[] {
  const placed = plan.query.length === 0 ? none : plan.query.flatMap((place) => pairsOf(place, args))
  if (rest === undefined) return placed
  return [...placed, ...Object.entries(rest).flatMap(([name, value]) => writePairs(loose(name, value), value))]
}

function headersFrom(plan: Plan, args: JsonObject, key: string | undefined, idempotencyKey: string): Draft['headers'] {
  const headers: Pair[] = []
  if (key !== undefined) headers.push([key, headerSafe(idempotencyKey)])
  for (const place of plan.header) addHeader(headers, place, args)
  return headers
}

/** Methods without a side effect; they need no idempotency key when the tool has none either. */
const safe: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
const bodiless: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE'])

function restOf(plan: Plan, args: JsonObject): JsonObject {
  if (plan.placed.size === 0) return args
  return Object.fromEntries(Object.entries(args).filter(([name]) => !plan.placed.has(name)))
}

function bodyOf(plan: Plan, args: JsonObject, rest: JsonObject): SentBody | undefined {
  const [unbound] = Object.keys(rest)
  if (plan.body?.arg !== undefined && unbound !== undefined)
    throw badArgument(unbound, 'is not bound to any part of the request')
  const body = plan.body ?? (unbound === undefined ? undefined : json)
  return body === undefined ? undefined : writeBody(body, args, rest)
}

const json: HttpBody = { type: 'json' }

/** An unbound argument: style `form`, or `name[key]` for an object, so that no member is lost. */
function loose(name: string, value: Json): ParameterTarget {
  const deep = isObject(value)
  return { argument: name, name, style: deep ? 'deepObject' : 'form', explode: true, reserved: false, json: false }
}

function pairsOf(place: ParameterTarget, args: JsonObject): Pair[] {
  const value = Object.hasOwn(args, place.argument) ? args[place.argument] : undefined
  return value === undefined ? [] : writePairs(place, value)
}

function addHeader(headers: Pair[], place: ParameterTarget, args: JsonObject): void {
  const value = Object.hasOwn(args, place.argument) ? args[place.argument] : undefined
  if (value === undefined || value === null) return
  headers.push([place.name.toLowerCase(), writeText(place, value, headerFromArgument)])
}

/** The fixed parts of the requests of one binding, computed once. */
export interface Fixed {
  readonly auth: readonly HttpAuth[]
  /** By name in lower case; headers of the binding override those of the backend. */
  readonly headers: readonly (readonly [name: string, text: string])[]
  readonly query: readonly (readonly [name: string, text: string])[]
  readonly cookies: readonly (readonly [name: string, text: string])[]
  /** Names of the secrets that the fixed parts reference. */
  readonly secrets: readonly string[]
  /** In lower case; undefined when the key is not sent. */
  readonly idempotencyHeader: string | undefined
  /** The path, when it has no parameters. */
  readonly path: string | undefined
  /** The URL of calls without a query, when the path is fixed. */
  readonly url: URL | undefined
}

export function fixedOf(plan: Plan, settings: Settings): Fixed {
  const auth = plan.auth ?? settings.auth
  const lower = (headers: object): [string, string][] =>
    Object.entries(headers).map(([name, text]) => [name.toLowerCase(), text])
  const headers = [...new Map([...lower(settings.headers), ...lower(plan.headers)])]
  const query = Object.entries({ ...settings.constants, ...plan.constants, ...named(auth, 'query') })
  const cookies = Object.entries(named(auth, 'cookie'))
  const texts = [...headers, ...query, ...cookies].map(([, text]) => text)
  const secrets = secretNames([...texts, ...auth.flatMap(textsOf)])
  const literal = plan.path.every((segment) => segment.every((part) => typeof part === 'string'))
  const path = literal ? expandPath(plan.path, {}) : undefined
  const url = path === undefined ? undefined : urlBelow(plan.base ?? settings.base, path, '')
  const key = plan.idempotencyHeader ?? settings.idempotencyHeader
  const idempotencyHeader = key === false ? undefined : key.toLowerCase()
  return { auth, headers, query, cookies, secrets, idempotencyHeader, path, url }
}

function textsOf(auth: HttpAuth): string[] {
  if (auth.type === 'bearer') return [auth.token]
  return auth.type === 'basic' ? [auth.username, auth.password] : [auth.value]
}

/**
 * Adds the fixed parts of the configuration: constants and credentials, with their secrets. An argument must not repeat a
 * parameter of the configuration: a server that uses the other value would ignore the configured credentials.
 */
export function sealRequest(
  draft: Draft,
  plan: Plan,
  settings: Settings,
  fixed: Fixed,
  secrets: Secrets,
): SealedRequest {
  refuseDoubles(draft.query, fixed.query, 'query')
  refuseDoubles(draft.cookies, fixed.cookies, 'cookie')
  refuseFixedHeaders(draft, plan, fixed)
  const headers = headersOf(draft, plan, fixed, secrets)
  const cookies = joined(draft.cookies, fixed.cookies, secrets)
  if (cookies.length > 0)
    headers.cookie = [...(headers.cookie ? [headers.cookie] : []), joinPairs(cookies, '; ')].join('; ')
  const query = joined(draft.query, fixed.query, secrets)
  const base = plan.base ?? settings.base
  const url = query.length === 0 && fixed.url !== undefined ? fixed.url : urlBelow(base, draft.path, joinPairs(query))
  const { method, body } = draft
  return body === undefined ? { url, method, headers } : { url, method, headers, body: body.data }
}

function named(auth: readonly HttpAuth[], type: 'query' | 'cookie'): { [name: string]: string } {
  return Object.fromEntries(auth.flatMap((one) => (one.type === type ? [[one.name, one.value]] : [])))
}

function refuseDoubles(pairs: readonly Pair[], fixed: Fixed['query'], where: string): void {
  if (fixed.length === 0 || pairs.length === 0) return
  const taken = new Set(fixed.map(([name]) => constantPair(name, '')[0]))
  const double = pairs.find(([name]) => taken.has(name))
  if (double === undefined) return
  throw badArgument(decodeURIComponent(double[0]), `would repeat a ${where} parameter that the configuration sets`)
}

/** The same check for headers, including the idempotency key, which only the pipeline sets. */
function refuseFixedHeaders({ key }: Draft, plan: Plan, fixed: Fixed): void {
  if (plan.header.length === 0) return
  const names = new Set([...fixed.headers.map(([name]) => name), ...fixed.auth.flatMap(authHeaderName)])
  if (key !== undefined) names.add(key)
  for (const { argument, name } of plan.header) {
    if (names.has(name.toLowerCase()))
      throw badArgument(argument, `would replace the header ${name}, which the configuration sets`)
  }
}

function authHeaderName(auth: HttpAuth): string[] {
  if (auth.type === 'header') return [auth.name.toLowerCase()]
  if (auth.type === 'cookie') return ['cookie']
  return auth.type === 'query' ? [] : ['authorization']
}

function joined(pairs: readonly Pair[], fixed: Fixed['query'], secrets: Secrets): readonly Pair[] {
  if (fixed.length === 0) return pairs
  return [...pairs, ...fixed.map(([name, text]) => constantPair(name, fillSecrets(text, secrets)))]
}

/** Later headers win: defaults, backend, binding, arguments, Content-Type of the body, credentials. */
function headersOf(draft: Draft, plan: Plan, fixed: Fixed, secrets: Secrets): { [name: string]: string } {
  const headers: { [name: string]: string } = { accept: accepts[plan.response] ?? '*/*' }
  for (const [name, text] of fixed.headers) headers[name] = fillHeader(name, text, secrets)
  for (const [name, value] of draft.headers) headers[name] = value
  if (draft.body !== undefined) headers['content-type'] = draft.body.mediaType
  for (const one of fixed.auth) addAuth(headers, one, secrets)
  return headers
}

function addAuth(headers: { [name: string]: string }, auth: HttpAuth, secrets: Secrets): void {
  if (auth.type === 'bearer') headers.authorization = `Bearer ${fillHeader('Authorization', auth.token, secrets)}`
  if (auth.type === 'header') headers[auth.name.toLowerCase()] = fillHeader(auth.name, auth.value, secrets)
  if (auth.type !== 'basic') return
  const pair = `${fillSecrets(auth.username, secrets)}:${fillSecrets(auth.password, secrets)}`
  headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`
}

const accepts: { readonly [response: string]: string } = {
  auto: 'application/json, text/event-stream;q=0.9, */*;q=0.8',
  json: 'application/json',
  text: 'text/*, */*;q=0.8',
  sse: 'text/event-stream',
  ndjson: 'application/x-ndjson, application/jsonl, */*;q=0.8',
}
