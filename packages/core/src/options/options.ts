import { type ErrorCode, type Issue, type JsonSchema, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { compileSchema, type Validator } from '@gantry/json-schema'
import { escapeSegment, unescapeSegment } from '@gantry/json-schema/internal/pointer'
import { didYouMean } from '../search/near.ts'
import type { Check, Member } from './option.ts'

/** The members of a set of options. */
export interface OptionsShape<T extends object> {
  /** Every member; the type makes a new member of T a compile error until it is added here. */
  readonly members: { readonly [Key in keyof Required<T>]: Member }
  readonly required?: readonly (keyof T & string)[]
  /** Completes "is not …" for an unknown member; "an option" when absent. */
  readonly noun?: string
}

/**
 * The check of a set of options or of a definition. One JSON Schema, compiled on first use, checks the members that are
 * data; the other members have their own checks. A member that is undefined counts as absent. An unknown member is
 * refused with a suggestion. A valid value is accepted without an allocation, so that the options of each call can be
 * checked. Checks can be nested.
 */
export function optionsCheck<T extends object>(shape: OptionsShape<T>): CheckOf<T> {
  const { required = [], noun = 'an option' } = shape
  const isNeeded = (name: string): boolean => required.some((each) => each === name)
  const members = Object.entries<Member>(shape.members)
  const known = members.map(([name]) => name)
  const parts = members.flatMap(([name, member]): PartMember[] =>
    isCheck(member) ? [{ name, check: member, needed: isNeeded(name) }] : [],
  )
  const schema: JsonSchema = {
    type: 'object',
    properties: Object.fromEntries(members.map(([name, member]) => [name, isCheck(member) ? true : member])),
    required: required.filter((name) => !isCheck(shape.members[name])),
    additionalProperties: false,
  }
  let compiled: Validator | undefined
  const data = (): Validator => (compiled ??= compileSchema(schema))
  return {
    get schema() {
      const properties = members.flatMap(([name, member]): [string, JsonSchema][] => {
        const own = isCheck(member) ? (member.schema ?? true) : member
        return own === false ? [] : [[name, own]]
      })
      return { type: 'object', properties: Object.fromEntries(properties), required, additionalProperties: false }
    },
    fits(value): value is T {
      if (!isObject(value) || !data().check(value)) return false
      for (const { name, check, needed } of parts) {
        const member = value[name]
        if (member === undefined ? needed : !check.fits(member)) return false
      }
      return true
    },
    issues(value, path) {
      if (!isObject(value)) return [{ path, message: 'must be an object' }]
      const ofData = explain(data().issues(value), schema, noun, value)
      const found = [...ofData, ...parts.flatMap((part) => partIssues(part, value[part.name]))]
      const order = new Map(known.map((name, index) => [name, index]))
      const placeOf = ({ path: at }: Issue): number => order.get(at.split('/', 2)[1] ?? '') ?? -1
      return found.toSorted((one, other) => placeOf(one) - placeOf(other)).map((issue) => below(path, issue))
    },
  }
}

interface PartMember {
  readonly name: string
  readonly check: Check
  readonly needed: boolean
}

function partIssues({ name, check, needed }: PartMember, value: unknown): readonly Issue[] {
  if (value !== undefined) return check.issues(value, `/${name}`)
  if (!needed) return []
  const [wanted] = check.issues(value, '')
  return [{ path: `/${name}`, message: `is required${wanted === undefined ? '' : ` and ${wanted.message}`}` }]
}

/** A check of a set of options, which has the type T when it fits. */
export interface CheckOf<T> extends Check {
  fits(value: unknown): value is T
}

/** Throws `code` with every failing path in `details.issues`; `what` names the options: "options of createBreaker". */
export function checkOptions<T>(what: string, check: CheckOf<T>, value: unknown, code?: ErrorCode): asserts value is T
export function checkOptions(what: string, check: Check, value: unknown, code?: ErrorCode): void
export function checkOptions(what: string, check: Check, value: unknown, code: ErrorCode = 'CONFIG_INVALID'): void {
  if (!check.fits(value)) refuse(what, check.issues(value, ''), code)
}

/** Throws `refusal` when there are issues. */
export function refuse(what: string, issues: readonly Issue[], code: ErrorCode = 'CONFIG_INVALID'): void {
  if (issues.length > 0) throw refusal(what, issues, code)
}

const mostShown = 20

/** `Invalid options of createBreaker: /failures must be a whole number of at least 1; /tresh is not an option.` */
export function refusal(what: string, issues: readonly Issue[], code: ErrorCode = 'CONFIG_INVALID'): ToolError {
  const shown = issues
    .slice(0, mostShown)
    .map(({ path, message }) => (path === '' ? `it ${message}` : `${path} ${message}`))
  const more = issues.length > mostShown ? `; and ${issues.length - mostShown} more` : ''
  return new ToolError(code, `Invalid ${what}: ${shown.join('; ')}${more}.`, { details: { issues } })
}

/** One issue for each unknown member, with a suggestion or the list of known members. */
export function unknownMembers(value: object, known: readonly string[], path: string, noun: string): readonly Issue[] {
  const unknown = Object.keys(value).filter((key) => !known.includes(key))
  return unknown.map((key) => ({
    path: `${path}/${escapeSegment(key.slice(0, 64))}`,
    message: notKnown(key, known, noun),
  }))
}

const mostListed = 24

function notKnown(key: string, known: readonly string[], noun: string): string {
  const near = didYouMean(key, known)
  const all = known.length > mostListed ? '' : `; there are ${known.join(', ')}`
  return `is not ${noun}${near === '' ? all : near}`
}

function isCheck(member: Member): member is Check {
  return typeof member === 'object' && typeof member.fits === 'function'
}

function below(path: string, issue: Issue): Issue {
  return path === '' ? issue : { ...issue, path: `${path}${issue.path}` }
}

/** The issues of the validator in the words of the schema: at most one per path. */
function explain(issues: readonly Issue[], schema: JsonSchema, noun: string, value: unknown): Issue[] {
  const found = new Map<string, Issue>()
  for (const issue of issues) {
    const { place, keyword, inside } = placeOf(schema, issue.schemaPath ?? '')
    // The description of the whole `anyOf` or `oneOf` covers an issue in one of its branches.
    if (inside && isDescribed(place)) continue
    const said = explained(issue, place, keyword, noun)
    const meant = keyword === 'enum' ? nearestOf(place.enum, valueAt(value, issue.path)) : ''
    if (!found.has(said.path)) found.set(said.path, { ...said, message: `${said.message}${meant}` })
  }
  return [...found.values()]
}

function explained({ path, message }: Issue, place: Keywords, keyword: string, noun: string): Issue {
  if (keyword === 'required') {
    const name = /"(.*)"/.exec(message)?.[1] ?? ''
    const member = isObject(place.properties) ? place.properties[name] : undefined
    const words = isObject(member) && isDescribed(member) ? ` and must be ${member.description}` : ''
    return { path: `${path}/${escapeSegment(name)}`, message: `is required${words}` }
  }
  if (keyword === 'additionalProperties') {
    const key = unescapeSegment(path.slice(path.lastIndexOf('/') + 1))
    const known = isObject(place.properties) ? Object.keys(place.properties) : []
    return { path, message: notKnown(key, known, noun) }
  }
  return { path, message: isDescribed(place) ? `must be ${place.description}` : message }
}

/** A suggestion from the words of an enum. */
function nearestOf(words: unknown, given: unknown): string {
  return Array.isArray(words) && isText(given) ? didYouMean(given, words.filter(isText)) : ''
}

function valueAt(value: unknown, path: string): unknown {
  const segments = path.split('/').slice(1).map(unescapeSegment)
  return segments.reduce((at, key) => (typeof at === 'object' && at !== null ? Reflect.get(at, key) : undefined), value)
}

type Keywords = { readonly [keyword: string]: unknown }

function isDescribed(place: Keywords): place is Keywords & { readonly description: string } {
  return typeof place.description === 'string'
}

/**
 * The schema of a keyword. For a path into a branch of `anyOf` or `oneOf` it is the schema that has them, and `inside` is
 * true.
 */
function placeOf(schema: JsonSchema, schemaPath: string): { place: Keywords; keyword: string; inside: boolean } {
  const segments = schemaPath.split('/').slice(1).map(unescapeSegment)
  const keyword = segments.pop() ?? ''
  let place: unknown = schema
  for (let index = 0; index < segments.length; index += 1) {
    const segment = segments[index] ?? ''
    const isName = segments[index - 1] === 'properties' && !Array.isArray(place)
    if (!isName && (segment === 'anyOf' || segment === 'oneOf') && isObject(place) && isDescribed(place)) {
      return { place, keyword, inside: true }
    }
    place = isObject(place) || Array.isArray(place) ? Reflect.get(place, segment) : undefined
  }
  return { place: isObject(place) ? place : {}, keyword, inside: false }
}
