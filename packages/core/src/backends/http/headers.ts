import { isFramingHeader, isHeaderName, isSensitiveHeader } from '../../ids/header-names.ts'
import { badArgument } from './check.ts'

const visible = /^[\t\x20-\x7e]*$/

/** What is wrong with the name of a header that the configuration sets. */
export function headerNameFault(name: string): string | undefined {
  if (!isHeaderName(name)) return 'is not the name of a header'
  return isFramingHeader(name) ? 'is a header that belongs to the connection and cannot be set' : undefined
}

/** What is wrong with a header whose name is that of an argument, because the binding writes no other. */
export function impliedHeaderFault(name: string): string | undefined {
  if (!isSensitiveHeader(name)) return headerNameFault(name)
  return `puts an argument into the header ${name}; if that is meant, write its name out`
}

/** What is wrong with the value of a header that the configuration sets. */
export function headerValueFault(value: string): string | undefined {
  return visible.test(value) ? undefined : 'holds a character that a header cannot carry'
}

/** The value of a header that comes from an argument; refuses what would arrive as something else. */
export function headerFromArgument(argument: string, value: string): string {
  if (!visible.test(value)) throw badArgument(argument, 'goes into a header and holds more than printable ASCII')
  if (value.trim() !== value) throw badArgument(argument, 'goes into a header and begins or ends with white space')
  return value
}

/** A text of the caller's as one header value that arrives whole; what a header cannot carry is percent-encoded. */
export function headerSafe(value: string): string {
  return visible.test(value) && value.trim() === value ? value : encodeURIComponent(value.toWellFormed())
}
