/** Tokens are truncated to this many characters, so that one long blob cannot fill the dictionary. */
const maxToken = 64

const beyondAscii = /[\u0080-\uffff]/
const camel = /[a-z\d][A-Z]|[A-Z]{2}[a-rt-z]/
const camelParts = /([a-z\d])(?=[A-Z])|([A-Z])(?=[A-Z][a-rt-z])/g
const lettersFirst = /^[a-z]{3,}(?=\d)/

/**
 * Splits a text into search tokens: lower case, without plural `s`, `camelCase`, `snake_case` and `kebab-case` split.
 * A word with digits (`oauth2`, `s3`) stays one token; its leading letters follow as a token when they could be a word.
 * Appends to `into` and stops at `limit` tokens, so that hostile text takes bounded time.
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
  const leading = last <= 57 && word.length > 3 ? lettersFirst.exec(word)?.[0] : undefined
  if (leading !== undefined && into.length < limit) into.push(stem(leading.slice(0, maxToken)))
}

/** Whether a code unit is a to z or a digit; false beyond the end of the text. */
function isWordUnit(unit: number): boolean {
  return (unit >= 97 && unit <= 122) || (unit >= 48 && unit <= 57)
}

const marks = /[\u0300-\u036f]/g
const unicodeCamel = /(\p{Ll}|\p{N})(?=\p{Lu})/gu
const unicodeWord = /[\p{L}\p{N}\p{M}]+/gu
const unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u

/** The slower path for all scripts; scripts without spaces are split into pairs of characters. */
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

const s = 115
const e = 101

/** Removes a plural or third-person `s`; wrong guesses are harmless, because queries are stemmed the same way. */
function stem(token: string): string {
  const length = token.length
  if (length < 4 || token.charCodeAt(length - 1) !== s) return token
  const before = token[length - 2]
  if (before === 's' || before === 'u' || before === 'i') return token
  if (token.charCodeAt(length - 2) !== e || length < 5) return token.slice(0, -1)
  if (token[length - 3] === 'i') return `${token.slice(0, -3)}y`
  return /(?:ss|x|ch|sh)es$/.test(token) ? token.slice(0, -2) : token.slice(0, -1)
}

const common: ReadonlySet<string> = new Set(
  'a an and are as at be by can for from has have how i if in into is it its me my of on or so that the their them then this to up use used want was what when which will with you your'.split(
    ' ',
  ),
)

/** Stop words; they count in names but not in prose. */
export function isCommon(token: string): boolean {
  return token.length <= 5 && common.has(token)
}

const conversational: ReadonlySet<string> = new Set(
  'about also am any been but could did do doe doing each else every few give got had he her here him his just know let like may might more most much must need no not now off one only other our out over please she should some such tell than there these they those through too under us very we were where while who whom why would'.split(
    ' ',
  ),
)

/** Conversational words that do not describe a tool; names and keywords may hold them. */
export function isConversational(token: string): boolean {
  return token.length <= 7 && conversational.has(token)
}

/** The common root of inflected forms of an English word: without `ing`, `ed` and a final `e`. */
export function rootOf(token: string): string {
  if (token.length > 4 && token.endsWith('ied')) return `${token.slice(0, -3)}y`
  const bare = token.length > 5 && token.endsWith('ing') ? token.slice(0, -3) : withoutPast(token)
  if (bare === token) return withoutE(token)
  if (bare.length < 3 || !/[aeiouy]/.test(bare)) return withoutE(token)
  const doubled = bare.length > 3 && bare.at(-1) === bare.at(-2) && !/[lsz]$/.test(bare)
  return doubled ? bare.slice(0, -1) : withoutE(bare)
}

function withoutPast(token: string): string {
  return token.length > 4 && token.endsWith('ed') ? token.slice(0, -2) : token
}

function withoutE(token: string): string {
  return token.length > 4 && token.endsWith('e') ? token.slice(0, -1) : token
}
