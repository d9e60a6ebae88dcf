/** Names that pages use; any other is left as it stands. */
const named: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...{ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', copy: '©', reg: '®', trade: '™', deg: '°' },
    ...{ hellip: '…', ndash: '–', mdash: '—', lsquo: '‘', rsquo: '’', sbquo: '‚', ldquo: '“', rdquo: '”', bdquo: '„' },
    ...{ laquo: '«', raquo: '»', lsaquo: '‹', rsaquo: '›', bull: '•', middot: '·', sect: '§', para: '¶', dagger: '†' },
    ...{ euro: '€', pound: '£', yen: '¥', cent: '¢', times: '×', divide: '÷', plusmn: '±', frac12: '½', frac14: '¼' },
    ...{ larr: '←', rarr: '→', uarr: '↑', darr: '↓', harr: '↔', rArr: '⇒', hArr: '⇔', check: '✓', infin: '∞' },
    ...{ le: '≤', ge: '≥', ne: '≠', asymp: '≈', minus: '−', micro: 'µ', sup1: '¹', sup2: '²', sup3: '³', ordm: 'º' },
    ...{ auml: 'ä', ouml: 'ö', uuml: 'ü', Auml: 'Ä', Ouml: 'Ö', Uuml: 'Ü', szlig: 'ß', eacute: 'é', egrave: 'è' },
    ...{
      ecirc: 'ê',
      euml: 'ë',
      aacute: 'á',
      agrave: 'à',
      acirc: 'â',
      atilde: 'ã',
      aring: 'å',
      aelig: 'æ',
      ccedil: 'ç',
    },
    ...{
      iacute: 'í',
      igrave: 'ì',
      icirc: 'î',
      iuml: 'ï',
      ntilde: 'ñ',
      oacute: 'ó',
      ograve: 'ò',
      ocirc: 'ô',
      otilde: 'õ',
    },
    ...{
      oslash: 'ø',
      uacute: 'ú',
      ugrave: 'ù',
      ucirc: 'û',
      yacute: 'ý',
      Eacute: 'É',
      Agrave: 'À',
      Aring: 'Å',
      AElig: 'Æ',
    },
    ...{ Ccedil: 'Ç', Ntilde: 'Ñ', Oslash: 'Ø', ensp: ' ', emsp: ' ', thinsp: ' ', shy: '', zwj: '', zwnj: '' },
  }),
)

/** Characters for what stands for them in a page, each looked at once. */
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,30}));?/g,
    (whole, decimal, hex, name) =>
      name === undefined
        ? character(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16))
        : (named.get(name) ?? whole),
  )
}

function character(code: number): string {
  const sound = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
  return sound ? String.fromCodePoint(code) : '\ufffd'
}
