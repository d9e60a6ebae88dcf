import { stem } from './stem.ts'

/** Tokens are cut to this many characters, so that one long blob cannot fill the dictionary. */
const maxToken = 64

const beyondAscii = /[\u0080-\uffff]/
const camel = /[a-z\d][A-Z]|[A-Z]{2}[a-rt-z]/
const camelParts = /([a-z\d])(?=[A-Z])|([A-Z])(?=[A-Z][a-rt-z])/g
const lettersFirst = /^[a-z]{3,}(?=\d)/

/**
 * Splits a text into search tokens: lower case, plural `s` taken off, `camelCase`, `snake_case` and `kebab-case` parted.
 * A word with digits (`oauth2`, `s3`) stays whole; its leading letters follow as a token when they could be a word.
 * Appends to `into` and stops at `limit` tokens, so hostile text costs no more than honest text.
 */
export function tokenize(text: string, into: string[], limit: number): void {
  if (beyondAscii.test(text)) tokenizeUnicode(text, into, limit)
  else tokenizeAscii(text, into, limit)
}

function tokenizeAscii(text: string, into: string[], limit: number): void {
  const parted = camel.test(text) ? text.replace(camelParts, '$& ') : text
  const lower = parted.toLowerCase()
  for (let start = 0; start < lower.length && into.length < limit; ) {
    let end = start
    while (isWordUnit(lower.charCodeAt(end))) end += 1
    if (end > start) addWord(lower.slice(start, end), into, limit)
    start = end + 1
  }
}

function addWord(word: string, into: string[], limit: number): void {
  into.push(stem(word.length > maxToken ? word.slice(0, maxToken) : word))
  const last = word.charCodeAt(word.length - 1)
  const letters = last <= 57 && word.length > 3 ? lettersFirst.exec(word)?.[0] : undefined
  if (letters !== undefined && into.length < limit) into.push(stem(letters.slice(0, maxToken)))
}

/** A lower-case letter or a digit; beyond the end of a text there is neither. */
function isWordUnit(unit: number): boolean {
  return (unit >= 97 && unit <= 122) || (unit >= 48 && unit <= 57)
}

const marks = /[\u0300-\u036f]/g
const unicodeCamel = /(\p{Ll}|\p{N})(?=\p{Lu})/gu
const unicodeWord = /[\p{L}\p{N}\p{M}]+/gu
const unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u

/** The general, slower way; scripts without spaces are cut into pairs of characters. */
function tokenizeUnicode(text: string, into: string[], limit: number): void {
  const plain = text.normalize('NFKD').replace(marks, '').normalize('NFKC').replace(unicodeCamel, '$& ').toLowerCase()
  for (const [word] of plain.matchAll(unicodeWord)) {
    if (into.length >= limit) return
    if (!unspaced.test(word)) {
      into.push(stem(word.slice(0, maxToken)))
      continue
    }
    const characters = [...word.slice(0, maxToken)]
    if (characters.length === 1) into.push(word)
    for (let index = 0; index + 1 < characters.length && into.length < limit; index += 1) {
      into.push(`${characters[index]}${characters[index + 1]}`)
    }
  }
}
