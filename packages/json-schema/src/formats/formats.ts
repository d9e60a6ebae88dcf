import { parseRegex } from '../patterns/parse.ts'
import {
  isEmail,
  isHostname,
  isIdnEmail,
  isIdnHostname,
  isIpv4,
  isIpv6,
  isIri,
  isIriReference,
  isUri,
  isUriReference,
  isUriTemplate,
} from './network.ts'

const fullDate = /^(\d{4})-(\d\d)-(\d\d)$/
const fullTime = /^(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|([+-])(\d\d):(\d\d))$/
const datePart = /^P(?:\d+W|(?=\d|T\d)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)$/

/** RFC 3339 `full-date`, with the length of the month. */
function isDate(text: string): boolean {
  const match = fullDate.exec(text)
  if (match === null) return false
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])]
  return month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

/** RFC 3339 `full-time`; second 60 only where UTC has a leap second. */
function isTime(text: string): boolean {
  const match = fullTime.exec(text)
  if (match === null) return false
  const [hour, minute, second] = [Number(match[1]), Number(match[2]), Number(match[3])]
  const [offsetHour, offsetMinute] = [Number(match[5] ?? 0), Number(match[6] ?? 0)]
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return false
  if (second < 60) return true
  const offset = (offsetHour * 60 + offsetMinute) * (match[4] === '-' ? -1 : 1)
  return (hour * 60 + minute - offset + 2880) % 1440 === 1439
}

function isDateTime(text: string): boolean {
  return /^[tT]$/.test(text.charAt(10)) && isDate(text.slice(0, 10)) && isTime(text.slice(11))
}

/** ISO 8601 duration as RFC 3339 writes it: units in order, none left out between two. */
function isDuration(text: string): boolean {
  if (!datePart.test(text)) return false
  const [date = '', time = ''] = text.split('T')
  return !/Y\d+D/.test(date) && !/H\d+S/.test(time)
}

const uuid = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/
const pointer = /^(?:\/(?:[^~/]|~[01])*)*$/u
const relativePointer = /^(?:0|[1-9]\d*)(?:#$|(?=\/|$))/

/** Whether a text is a regular expression in the `u` dialect; parsing is linear, nothing is matched. */
function isRegex(text: string): boolean {
  try {
    parseRegex(new RegExp(text, 'u').source, true)
    return true
  } catch {
    return false
  }
}

function isRelativePointer(text: string): boolean {
  const head = relativePointer.exec(text)?.[0]
  return head !== undefined && (head.endsWith('#') || pointer.test(text.slice(head.length)))
}

/** Checks by name of format; each is linear in the length of the text. */
export const formats: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ['date-time', isDateTime],
  ['date', isDate],
  ['time', isTime],
  ['duration', isDuration],
  ['email', isEmail],
  ['idn-email', isIdnEmail],
  ['hostname', isHostname],
  ['idn-hostname', isIdnHostname],
  ['ipv4', isIpv4],
  ['ipv6', isIpv6],
  ['uri', isUri],
  ['uri-reference', isUriReference],
  ['iri', isIri],
  ['iri-reference', isIriReference],
  ['uri-template', isUriTemplate],
  ['uuid', (text) => uuid.test(text)],
  ['json-pointer', (text) => pointer.test(text)],
  ['relative-json-pointer', isRelativePointer],
  ['regex', isRegex],
])
