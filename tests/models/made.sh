# made.sh - lines for the built-in models to learn from; sourced by tests.

# make NAME RECORDS: lines of that kind on standard output. A linear congruence
# draws, so that the lines are the same everywhere.
make()
{
    awk -v kind="$1" -v n="$2" '
    function draw(below)
    {
        state = (state * 1103515245 + 12345) % 2147483648
        return int(state / 65536) % below
    }
    # Who is older and works more earns more; so does one sex of two.
    function adult(age, hours, sex)
    {
        age = draw(60); hours = draw(60); sex = draw(2)
        return age / 100 ",w" draw(4) ",0.1,e" draw(9) ",0.5,m" draw(3) ",o" \
            draw(9) ",r" draw(4) ",x,s" sex ",0,0," hours / 100 ",c" \
            draw(5) "," (age + hours + 40 * sex + draw(20) > 90)
    }
    # The first two features decide together.
    function libfm(a, b, s, i)
    {
        a = draw(8); b = draw(8)
        s = ((a + b) % 2 ? "1" : "-1") " " a ":1 " 10 + b ":1"
        for (i = 2; i < 10; i++)
            s = s " " 20 + i * 10 + draw(9) ":1"
        return s
    }
    # Ten rings of five items: the next one follows.
    function session(at, ring, len, s)
    {
        ring = draw(10) * 5; at = draw(5); len = 1 + draw(6)
        s = ring + at
        while (--len)
            s = s " " ring + (++at) % 5
        return s
    }
    # Every tag has words of its own.
    function tagged(tag, s, i)
    {
        tag = draw(4)
        for (i = 0; i < 6; i++)
            s = s (i ? " " : "") (draw(2) ? "word" tag * 5 + draw(5) : "any" draw(9))
        return tag "\t" s
    }
    # A title and a description of one of twelve topics.
    function news(topic, i, t, d)
    {
        topic = draw(12)
        for (i = 0; i < 4; i++) {
            t = t " Topic" topic * 3 + draw(3)
            d = d " topic" topic * 3 + draw(3) " of" draw(9)
        }
        return "\"1\",\"" substr(t, 2) "\",\"" substr(d, 2) "\""
    }
    BEGIN {
        state = 7
        for (i = 0; i < n; i++)
            print kind == "adult" ? adult() : kind == "libfm" ? libfm() : \
                kind == "sessions" ? session() : kind == "tagged" ? tagged() : \
                news()
    }'
}
